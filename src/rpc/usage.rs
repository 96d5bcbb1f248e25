//! `usage/report`: what was used, from the ledger.

use std::sync::Arc;

use chrono::NaiveDate;

use super::error::RpcError;
use crate::clock::Zone;
use crate::protocol::id::ThreadId;
use crate::protocol::report::{UsageReportParams, UsageReportResponse, UsageSum};
use crate::runtime::Runtime;
use crate::runtime::client::Request;
use crate::store::report::UsageQuery;

pub(super) async fn report(
    runtime: Arc<Runtime>,
    params: UsageReportParams,
    _: Arc<dyn Request>,
) -> Result<UsageReportResponse, RpcError> {
    let query = query(params)?;
    let data = runtime.store.usage_report(&query).await?;
    let mut total = UsageSum::default();
    data.iter().for_each(|row| total += row.sum);
    Ok(UsageReportResponse { time_zone: query.zone.name().to_owned(), data, total })
}

fn query(params: UsageReportParams) -> Result<UsageQuery, RpcError> {
    let name = params.time_zone.as_deref().unwrap_or("UTC");
    let zone = Zone::parse(name).ok_or_else(|| {
        RpcError::invalid(format!(
            "unknown time zone `{name}`: give a name like `Europe/Berlin`, or `UTC` or `local`"
        ))
    })?;
    let thread_id = match params.thread_id {
        Some(id) => Some(
            ThreadId::parse(&id)
                .map_err(|error| RpcError::invalid(format!("invalid thread id: {error}")))?
                .to_string(),
        ),
        None => None,
    };
    Ok(UsageQuery {
        group_by: params.group_by,
        zone,
        since: day("since", params.since)?,
        until: day("until", params.until)?,
        thread_id,
        include_descendants: params.include_descendants,
        project_id: params.project_id,
        model: params.model,
        model_provider: params.model_provider,
        goal_id: params.goal_id,
    })
}

fn day(name: &str, text: Option<String>) -> Result<Option<NaiveDate>, RpcError> {
    let Some(text) = text else { return Ok(None) };
    let day = text.parse();
    day.map(Some).map_err(|_| RpcError::invalid(format!("invalid {name} `{text}`: give a day as YYYY-MM-DD")))
}
