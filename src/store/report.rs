//! Sums over the ledger: by day in any time zone, thread, project, model, provider and goal.

use std::collections::BTreeMap;

use chrono::NaiveDate;

use super::Store;
use super::error::Result;
use crate::clock::Zone;
use crate::protocol::report::{UsageGroup, UsageReportRow, UsageSum};

/// Every zone differs from UTC by whole quarters of an hour, so the database sums up these, and days are made of them.
const QUARTER_MS: i64 = 15 * 60 * 1000;

/// What of the ledger is summed up, and how. An absent filter lets everything through.
#[derive(Clone, Debug)]
pub struct UsageQuery {
    /// What a row stands for; none: one row at most.
    pub group_by: Vec<UsageGroup>,
    /// Where days begin.
    pub zone: Zone,
    /// The first day.
    pub since: Option<NaiveDate>,
    /// The last day.
    pub until: Option<NaiveDate>,
    /// Only this thread.
    pub thread_id: Option<String>,
    /// Sub-agents count for the thread at the root of their tree, or for `thread_id`.
    pub include_descendants: bool,
    /// Only threads of this project.
    pub project_id: Option<String>,
    /// Only this model.
    pub model: Option<String>,
    /// Only this provider.
    pub model_provider: Option<String>,
    /// Only this goal.
    pub goal_id: Option<String>,
}

impl UsageQuery {
    /// Everything, in one row.
    pub fn all(zone: Zone) -> UsageQuery {
        UsageQuery {
            group_by: Vec::new(),
            zone,
            since: None,
            until: None,
            thread_id: None,
            include_descendants: false,
            project_id: None,
            model: None,
            model_provider: None,
            goal_id: None,
        }
    }

    fn groups(&self, group: UsageGroup) -> bool {
        self.group_by.contains(&group)
    }
}

/// What tells a row from the others, in the order of the report.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    day: Option<NaiveDate>,
    thread_id: Option<String>,
    project_id: Option<String>,
    model_provider: Option<String>,
    model: Option<String>,
    goal_id: Option<String>,
}

impl Store {
    /// The sums that a query asks for, one row a group that used anything.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn usage_report(&self, query: &UsageQuery) -> Result<Vec<UsageReportRow>> {
        let from_ms = query.since.map_or(i64::MIN, |day| query.zone.start_of(day));
        let day_after = query.until.map(|day| day.succ_opt().unwrap_or(day));
        let to_ms = day_after.map_or(i64::MAX, |day| query.zone.start_of(day));
        let by = |group| query.groups(group);
        let (by_day, by_thread, by_project) =
            (by(UsageGroup::Day), by(UsageGroup::Thread), by(UsageGroup::Project));
        let (by_model, by_provider, by_goal) =
            (by(UsageGroup::Model), by(UsageGroup::Provider), by(UsageGroup::Goal));
        let mut reader = self.reader().await?;
        let rows = sqlx::query!(
            r#"with recursive family (thread_id, thread_key, root_id) as (
                   select thread_id, thread_key, thread_id from threads as t
                   where case
                       when ?1 is not null then thread_id = ?1
                       when ?2 then not exists (select 1 from threads as p where p.thread_id = t.parent_thread_id)
                       else true
                   end
                   union
                   select child.thread_id, child.thread_key, root_id
                   from family
                   inner join threads as child on child.parent_thread_id = family.thread_id
                   where ?2
               )
               select case when ?3 then at_ms / ?4 end as "quarter?: i64",
                      case when ?5 then root_id end as "thread_id?: String",
                      case when ?5 then (
                          select coalesce(name, preview) from threads as r where r.thread_id = root_id
                      ) end as "title?: String",
                      case when ?6 then threads.project_id end as "project_id?: String",
                      case when ?7 then u.model_provider end as "model_provider?: String",
                      case when ?8 then u.model end as "model?: String",
                      case when ?9 then goal_id end as "goal_id?: String",
                      count(*) as "responses!: i64",
                      sum(input) as "input!: i64",
                      sum(cached_input) as "cached_input!: i64",
                      sum(cache_write_input) as "cache_write_input!: i64",
                      sum(output) as "output!: i64",
                      sum(reasoning_output) as "reasoning_output!: i64",
                      sum(total) as "total!: i64"
               from token_usage as u
               inner join family using (thread_key)
               inner join threads using (thread_key)
               where ?10 <= at_ms and at_ms < ?11
                 and (?12 is null or threads.project_id = ?12)
                 and (?13 is null or u.model_provider = ?13)
                 and (?14 is null or u.model = ?14)
                 and (?15 is null or goal_id = ?15)
               group by 1, 2, 4, 5, 6, 7"#,
            query.thread_id,
            query.include_descendants,
            by_day,
            QUARTER_MS,
            by_thread,
            by_project,
            by_provider,
            by_model,
            by_goal,
            from_ms,
            to_ms,
            query.project_id,
            query.model_provider,
            query.model,
            query.goal_id
        )
        .fetch_all(&mut *reader)
        .await?;
        let mut sums: BTreeMap<Key, (Option<String>, UsageSum)> = BTreeMap::new();
        for row in rows {
            let key = Key {
                day: row.quarter.map(|quarter| query.zone.day_of(quarter * QUARTER_MS)),
                thread_id: row.thread_id,
                project_id: row.project_id,
                model_provider: row.model_provider,
                model: row.model,
                goal_id: row.goal_id,
            };
            let (_, sum) = sums.entry(key).or_insert((row.title, UsageSum::default()));
            *sum += UsageSum {
                responses: row.responses,
                input_tokens: row.input,
                cached_input_tokens: row.cached_input,
                cache_write_input_tokens: row.cache_write_input,
                output_tokens: row.output,
                reasoning_output_tokens: row.reasoning_output,
                total_tokens: row.total,
            };
        }
        Ok(sums.into_iter().map(|(key, (title, sum))| report_row(key, title, sum)).collect())
    }
}

fn report_row(key: Key, thread_title: Option<String>, sum: UsageSum) -> UsageReportRow {
    UsageReportRow {
        day: key.day.map(|day| day.to_string()),
        thread_id: key.thread_id,
        thread_title,
        project_id: key.project_id,
        model: key.model,
        model_provider: key.model_provider,
        goal_id: key.goal_id,
        sum,
    }
}
