//! `thread/queue/*`.

use std::sync::Arc;

use super::error::RpcError;
use crate::protocol::queue::{
    ThreadQueueAddParams, ThreadQueueAddResponse, ThreadQueueDeleteParams, ThreadQueueDeleteResponse,
    ThreadQueueListParams, ThreadQueueListResponse, ThreadQueueReorderParams, ThreadQueueReorderResponse,
    ThreadQueueStartParams, ThreadQueueStartResponse, ThreadQueueUpdateParams, ThreadQueueUpdateResponse,
};
use crate::runtime::Runtime;
use crate::runtime::client::Request;

type Reply<T> = Result<T, RpcError>;

pub(super) async fn add(
    runtime: Arc<Runtime>,
    params: ThreadQueueAddParams,
    request: Arc<dyn Request>,
) -> Reply<ThreadQueueAddResponse> {
    Ok(ThreadQueueAddResponse { queued_submission: runtime.queue_add(params, &request).await? })
}

pub(super) async fn list(
    runtime: Arc<Runtime>,
    params: ThreadQueueListParams,
    _: Arc<dyn Request>,
) -> Reply<ThreadQueueListResponse> {
    Ok(runtime.queue_list(params).await?)
}

pub(super) async fn update(
    runtime: Arc<Runtime>,
    params: ThreadQueueUpdateParams,
    _: Arc<dyn Request>,
) -> Reply<ThreadQueueUpdateResponse> {
    Ok(ThreadQueueUpdateResponse { queued_submission: runtime.queue_update(params).await? })
}

pub(super) async fn delete(
    runtime: Arc<Runtime>,
    params: ThreadQueueDeleteParams,
    _: Arc<dyn Request>,
) -> Reply<ThreadQueueDeleteResponse> {
    Ok(ThreadQueueDeleteResponse { deleted: runtime.queue_delete(&params).await? })
}

pub(super) async fn reorder(
    runtime: Arc<Runtime>,
    params: ThreadQueueReorderParams,
    _: Arc<dyn Request>,
) -> Reply<ThreadQueueReorderResponse> {
    runtime.queue_reorder(params).await?;
    Ok(ThreadQueueReorderResponse {})
}

pub(super) async fn start(
    runtime: Arc<Runtime>,
    params: ThreadQueueStartParams,
    request: Arc<dyn Request>,
) -> Reply<ThreadQueueStartResponse> {
    Ok(ThreadQueueStartResponse { turn: runtime.queue_start(params, &request).await? })
}
