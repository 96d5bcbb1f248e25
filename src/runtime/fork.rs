//! `thread/fork`: a new thread with the beginning of another's history (`protocol/threads.md`, section 5).

use std::sync::Arc;

use serde_json::json;

use super::account::Initialization;
use super::client::Request;
use super::error::{Result, RuntimeError};
use super::goals;
use super::load::{Stored, overrides_of, refuse_archived, started_response};
use super::notify::Notify;
use super::recorder::{Recorder, session_meta};
use super::settings::{Overrides, Settings};
use super::thread::{Command, WhatWaits};
use super::{Runtime, prompt, view};
use crate::protocol::thread::{ThreadForkParams, ThreadForkResponse};
use crate::rollout::write::{Form, LineWriter};
use crate::store::fork::{Fork, Inherited};
use crate::store::goals::{GoalEvent, GoalRow};
use crate::store::rows::{Lines, ThreadRow};
use crate::store::turns::PlacedTurn;

/// Runs of the journal that are read at a time.
const RUNS_AT_A_TIME: i64 = 64;

/// What a fork takes over.
struct Boundary {
    end_line: i64,
    last_turn: Option<PlacedTurn>,
}

impl Runtime {
    /// `thread/fork`.
    ///
    /// # Errors
    /// There is nothing to fork, or no such boundary; the texts are those of the page.
    pub async fn fork_thread(
        self: &Arc<Self>,
        params: ThreadForkParams,
        request: &Arc<dyn Request>,
    ) -> Result<ThreadForkResponse> {
        check(&params)?;
        let source = self.fork_source(&params).await?;
        let boundary = self.boundary(&params, &source).await?;
        let overrides = overrides_of!(params);
        let cwd = overrides.cwd.clone().unwrap_or_else(|| source.cwd.clone());
        self.account.check_managed_config().await?;
        let config = self.thread_config(Some(&cwd), params.config.as_ref())?;
        let mut settings = Settings::restore(&source.settings_json, &config)?;
        settings.apply(&overrides, &config)?;
        config.provider(&settings.model_provider).map_err(RuntimeError::configuration)?;
        let new = self.new_row(&settings, &config, request);
        let empty = boundary.last_turn.is_none();
        let row = ThreadRow {
            forked_from_id: Some(source.thread_id.clone()),
            attached_to_thread_id: params.attach_to_source.then(|| source.thread_id.clone()),
            preview: if empty { String::new() } else { source.preview.clone() },
            name: source.name.clone(),
            thread_source: params.thread_source.as_ref().map(|source| source.to_string()),
            history_mode: source.history_mode.clone(),
            git_sha: source.git_sha.clone(),
            git_branch: source.git_branch.clone(),
            git_origin_url: source.git_origin_url.clone(),
            model_context_window: source.model_context_window,
            ..new
        };
        let (handle, inherited) = if params.ephemeral {
            let history = self.history_of(&source.thread_id, boundary.end_line).await?;
            let recorder = Recorder::ephemeral_fork(
                self.store.clone(),
                self.clock.clone(),
                self.mirror.clone(),
                row.clone(),
                history,
            );
            (self.load(row, settings, config, recorder, Stored::Never), Inherited::default())
        } else {
            let inherited = self.store_fork(&source, &row, &boundary).await?;
            let stored = self.store.thread(&row.thread_id).await?.unwrap_or(row);
            if let Err(error) = crate::import::mirror::repair(&self.store, &stored).await {
                tracing::error!(%error, "the rollout file of a fork could not be written");
            }
            let recorder = Recorder::stored(
                self.store.clone(),
                self.clock.clone(),
                self.mirror.clone(),
                stored.clone(),
                inherited.total,
            );
            let goal = self.copied_goal(&params, &source.thread_id, &stored.thread_id).await?;
            let waiting = WhatWaits { goal, ..WhatWaits::default() };
            (self.load(stored, settings, config, recorder, Stored::Yes(waiting)), inherited)
        };
        self.forked(&params, &handle, inherited, request).await
    }

    /// The goal that a fork takes along with `deferGoalContinuation`: nothing starts before an explicit turn.
    async fn copied_goal(
        &self,
        params: &ThreadForkParams,
        source: &str,
        fork: &str,
    ) -> Result<Option<GoalRow>> {
        if !params.defer_goal_continuation {
            return Ok(None);
        }
        if let Some(handle) = self.loaded(source) {
            handle.ask(Command::BookGoal).await?;
        }
        let Some(goal) = self.store.goal(source).await? else { return Ok(None) };
        let copy = GoalRow { deferred: true, objective_told: false, wakes_at_ms: None, ..goal };
        let event = GoalEvent {
            kind: "set".to_owned(),
            turn_id: None,
            reason: Some(format!("forked from {source}")),
        };
        let rule = Arc::new(move |_: Option<&GoalRow>| Ok(Some(copy.clone())));
        let outcome = self.store.change_goal(fork, event, rule).await?;
        Ok(outcome.ok().and_then(|(_, goal)| goal))
    }

    /// Subscribe, answer, replay, announce.
    async fn forked(
        self: &Arc<Self>,
        params: &ThreadForkParams,
        handle: &super::thread::ThreadHandle,
        inherited: Inherited,
        request: &Arc<dyn Request>,
    ) -> Result<ThreadForkResponse> {
        let live = handle.ask_subscribe(request.clone()).await?;
        self.account.thread_initialized(&live, Initialization::Forked, &**request, self.clock.now_ms());
        let thread_id = live.row.thread_id.clone();
        let started = started_response(&live);
        let mut thread = live.to_wire();
        let notify = Notify::new(self.clock.clone(), &thread_id);
        if !params.exclude_turns && !live.ephemeral {
            thread.turns = self.all_turns(&thread_id, &[]).await?;
            if let Some((turn_id, last)) = inherited.last {
                let usage = view::token_usage(inherited.total, last, live.row.model_context_window);
                request.client().send(&notify.token_usage(&turn_id, usage));
            }
        }
        self.clients.broadcast(&notify.thread_started(live.to_wire()));
        if let Some(goal) = handle.goals().goal() {
            self.clients.broadcast(&goals::updated(&self.clock, &thread_id, &goal, None));
        }
        Ok(ThreadForkResponse {
            active_permission_profile: started.active_permission_profile,
            approval_policy: started.approval_policy,
            approvals_reviewer: started.approvals_reviewer,
            cwd: started.cwd,
            disabled_plugin_ids: started.disabled_plugin_ids,
            instruction_sources: started.instruction_sources,
            model: started.model,
            model_provider: started.model_provider,
            multi_agent_mode: started.multi_agent_mode,
            reasoning_effort: started.reasoning_effort,
            runtime_workspace_roots: started.runtime_workspace_roots,
            sandbox: started.sandbox,
            service_tier: started.service_tier,
            thread,
        })
    }

    async fn fork_source(&self, params: &ThreadForkParams) -> Result<ThreadRow> {
        if let Some(path) = params.path.as_deref().filter(|path| !path.is_empty()) {
            return self.row_of_path(path).await;
        }
        let row = self.row_of_id(&params.thread_id).await?;
        refuse_archived(&row)?;
        Ok(row)
    }

    async fn boundary(&self, params: &ThreadForkParams, source: &ThreadRow) -> Result<Boundary> {
        let turns = self.store.all_turns(&source.thread_id).await?;
        let find = |id: &str| {
            let found = turns.iter().position(|turn| turn.row.turn_id == id);
            found.ok_or_else(|| RuntimeError::invalid(format!("turn not found: {id}")))
        };
        if let Some(id) = &params.last_turn_id {
            let turn = &turns[find(id)?];
            if turn.row.status == "inProgress" && self.store.turn_is_held(&source.thread_id).await? {
                return Err(RuntimeError::invalid(format!(
                    "lastTurnId '{id}' identifies an in-progress turn"
                )));
            }
            return Ok(Boundary { end_line: turn.row.end_line, last_turn: Some(turn.clone()) });
        }
        if let Some(id) = &params.before_turn_id {
            let at = find(id)?;
            let last_turn = at.checked_sub(1).map(|before| turns[before].clone());
            return Ok(Boundary { end_line: turns[at].row.first_line, last_turn });
        }
        Ok(Boundary { end_line: source.journal_lines, last_turn: turns.last().cloned() })
    }

    /// Make the fork in the database. Its file is its own metadata, then the source's lines, then what cuts a running
    /// turn short.
    async fn store_fork(
        &self,
        source: &ThreadRow,
        row: &ThreadRow,
        boundary: &Boundary,
    ) -> Result<Inherited> {
        let form = Form::from_word(&row.history_mode);
        let mut head = LineWriter::new(form, 0, self.clock.now_ms());
        head.record("session_meta", &session_meta(row));
        let (bytes, count) = head.finish();
        // A paginated file keeps its ordinals when the new metadata stands in the place of the old.
        let skip_lines = if form == Form::Paginated { 1 } else { 0 };
        let kept = boundary.end_line - skip_lines;
        let mut tail = LineWriter::new(form, (count + kept).max(0) as u64, self.clock.now_ms());
        if let Some(turn) = boundary.last_turn.as_ref().filter(|turn| turn.row.status == "inProgress") {
            tail.response_item(&json!({"type": "message", "role": "user",
                "content": [{"type": "input_text", "text": prompt::TURN_ABORTED}]}));
            tail.event(
                &json!({"type": "turn_aborted", "turn_id": turn.row.turn_id, "reason": "interrupted"}),
            );
        }
        let (tail_bytes, tail_count) = tail.finish();
        let fork = Fork {
            source_id: source.thread_id.clone(),
            row: row.clone(),
            head: Lines { bytes, count },
            skip_lines,
            end_line: boundary.end_line,
            last_turn_place: boundary.last_turn.as_ref().map(|turn| turn.place),
            tail: Lines { bytes: tail_bytes, count: tail_count },
        };
        Ok(self.store.fork_thread(fork).await?)
    }

    /// The recorded lines of a thread up to this one.
    async fn history_of(&self, thread_id: &str, end_line: i64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut line = 0;
        while line < end_line {
            let runs = self.store.journal_from_line(thread_id, line, RUNS_AT_A_TIME).await?;
            if runs.is_empty() {
                break;
            }
            for run in &runs {
                for recorded in crate::rollout::read::lines(&run.bytes) {
                    if line < end_line {
                        bytes.extend_from_slice(recorded);
                        line += 1;
                    }
                }
            }
        }
        Ok(bytes)
    }
}

fn check(params: &ThreadForkParams) -> Result<()> {
    if params.last_turn_id.is_some() && params.before_turn_id.is_some() {
        return Err(RuntimeError::invalid("`beforeTurnId` cannot be combined with `lastTurnId`"));
    }
    if params.ephemeral && params.defer_goal_continuation {
        return Err(RuntimeError::invalid("`deferGoalContinuation` cannot be combined with `ephemeral`"));
    }
    if params.experimental_prediction_mode && !params.ephemeral {
        return Err(RuntimeError::invalid("`experimentalPredictionMode` requires `ephemeral: true`"));
    }
    Ok(())
}
