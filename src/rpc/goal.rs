//! `thread/goal/*`.

use std::sync::Arc;

use super::error::RpcError;
use crate::protocol::goal::{
    ThreadGoalClearParams, ThreadGoalClearResponse, ThreadGoalGetParams, ThreadGoalGetResponse,
    ThreadGoalSetParams, ThreadGoalSetResponse,
};
use crate::runtime::Runtime;
use crate::runtime::client::Request;

type Reply<T> = Result<T, RpcError>;

pub(super) async fn set(
    runtime: Arc<Runtime>,
    params: ThreadGoalSetParams,
    request: Arc<dyn Request>,
) -> Reply<ThreadGoalSetResponse> {
    Ok(ThreadGoalSetResponse { goal: runtime.set_goal(params, &request).await? })
}

pub(super) async fn get(
    runtime: Arc<Runtime>,
    params: ThreadGoalGetParams,
    _: Arc<dyn Request>,
) -> Reply<ThreadGoalGetResponse> {
    Ok(ThreadGoalGetResponse { goal: runtime.get_goal(&params).await? })
}

pub(super) async fn clear(
    runtime: Arc<Runtime>,
    params: ThreadGoalClearParams,
    request: Arc<dyn Request>,
) -> Reply<ThreadGoalClearResponse> {
    Ok(ThreadGoalClearResponse { cleared: runtime.clear_goal(&params, &request).await? })
}
