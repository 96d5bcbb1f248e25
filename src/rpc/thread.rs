//! `thread/*`.

use std::sync::Arc;

use super::error::RpcError;
use crate::protocol::item::{
    ThreadItemsListParams, ThreadItemsListResponse, ThreadItemsReadParams, ThreadItemsReadResponse,
};
use crate::protocol::settings::{ThreadSettingsUpdateParams, ThreadSettingsUpdateResponse};
use crate::protocol::thread::{
    ThreadArchiveParams, ThreadArchiveResponse, ThreadCompactStartParams, ThreadCompactStartResponse,
    ThreadDeleteParams, ThreadDeleteResponse, ThreadForkParams, ThreadForkResponse, ThreadInjectItemsParams,
    ThreadInjectItemsResponse, ThreadListParams, ThreadListResponse, ThreadLoadedListParams,
    ThreadLoadedListResponse, ThreadMetadataUpdateParams, ThreadMetadataUpdateResponse, ThreadReadParams,
    ThreadReadResponse, ThreadResumeParams, ThreadResumeResponse, ThreadSetNameParams, ThreadSetNameResponse,
    ThreadStartParams, ThreadStartResponse, ThreadUnarchiveParams, ThreadUnarchiveResponse,
    ThreadUnsubscribeParams, ThreadUnsubscribeResponse,
};
use crate::protocol::turn::{ThreadTurnsListParams, ThreadTurnsListResponse};
use crate::runtime::Runtime;
use crate::runtime::client::Request;

type Reply<T> = Result<T, RpcError>;

pub(super) async fn start(
    runtime: Arc<Runtime>,
    params: ThreadStartParams,
    request: Arc<dyn Request>,
) -> Reply<ThreadStartResponse> {
    Ok(runtime.start_thread(params, &request).await?)
}

pub(super) async fn resume(
    runtime: Arc<Runtime>,
    params: ThreadResumeParams,
    request: Arc<dyn Request>,
) -> Reply<ThreadResumeResponse> {
    Ok(runtime.resume_thread(params, &request).await?)
}

pub(super) async fn fork(
    runtime: Arc<Runtime>,
    params: ThreadForkParams,
    request: Arc<dyn Request>,
) -> Reply<ThreadForkResponse> {
    Ok(runtime.fork_thread(params, &request).await?)
}

pub(super) async fn compact(
    runtime: Arc<Runtime>,
    params: ThreadCompactStartParams,
    request: Arc<dyn Request>,
) -> Reply<ThreadCompactStartResponse> {
    runtime.compact_thread(&params, &request).await?;
    Ok(ThreadCompactStartResponse {})
}

pub(super) async fn read(
    runtime: Arc<Runtime>,
    params: ThreadReadParams,
    _: Arc<dyn Request>,
) -> Reply<ThreadReadResponse> {
    Ok(runtime.read_thread(params).await?)
}

pub(super) async fn list(
    runtime: Arc<Runtime>,
    params: ThreadListParams,
    _: Arc<dyn Request>,
) -> Reply<ThreadListResponse> {
    Ok(runtime.list_threads(params).await?)
}

pub(super) async fn loaded_list(
    runtime: Arc<Runtime>,
    params: ThreadLoadedListParams,
    _: Arc<dyn Request>,
) -> Reply<ThreadLoadedListResponse> {
    Ok(runtime.loaded_list(&params)?)
}

pub(super) async fn turns_list(
    runtime: Arc<Runtime>,
    params: ThreadTurnsListParams,
    _: Arc<dyn Request>,
) -> Reply<ThreadTurnsListResponse> {
    Ok(runtime.list_turns(params).await?)
}

pub(super) async fn items_list(
    runtime: Arc<Runtime>,
    params: ThreadItemsListParams,
    _: Arc<dyn Request>,
) -> Reply<ThreadItemsListResponse> {
    Ok(runtime.list_items(params).await?)
}

pub(super) async fn items_read(
    runtime: Arc<Runtime>,
    params: ThreadItemsReadParams,
    _: Arc<dyn Request>,
) -> Reply<ThreadItemsReadResponse> {
    Ok(runtime.read_items(params).await?)
}

pub(super) async fn inject_items(
    runtime: Arc<Runtime>,
    params: ThreadInjectItemsParams,
    _: Arc<dyn Request>,
) -> Reply<ThreadInjectItemsResponse> {
    runtime.inject_items(params).await?;
    Ok(ThreadInjectItemsResponse {})
}

pub(super) async fn name_set(
    runtime: Arc<Runtime>,
    params: ThreadSetNameParams,
    request: Arc<dyn Request>,
) -> Reply<ThreadSetNameResponse> {
    runtime.set_name(params, &request).await?;
    Ok(ThreadSetNameResponse {})
}

pub(super) async fn metadata_update(
    runtime: Arc<Runtime>,
    params: ThreadMetadataUpdateParams,
    _: Arc<dyn Request>,
) -> Reply<ThreadMetadataUpdateResponse> {
    Ok(ThreadMetadataUpdateResponse { thread: runtime.update_metadata(params).await? })
}

pub(super) async fn archive(
    runtime: Arc<Runtime>,
    params: ThreadArchiveParams,
    request: Arc<dyn Request>,
) -> Reply<ThreadArchiveResponse> {
    runtime.archive(&params.thread_id, &request).await?;
    Ok(ThreadArchiveResponse {})
}

pub(super) async fn unarchive(
    runtime: Arc<Runtime>,
    params: ThreadUnarchiveParams,
    request: Arc<dyn Request>,
) -> Reply<ThreadUnarchiveResponse> {
    Ok(ThreadUnarchiveResponse { thread: runtime.unarchive(&params.thread_id, &request).await? })
}

pub(super) async fn delete(
    runtime: Arc<Runtime>,
    params: ThreadDeleteParams,
    request: Arc<dyn Request>,
) -> Reply<ThreadDeleteResponse> {
    runtime.delete(&params.thread_id, &request).await?;
    Ok(ThreadDeleteResponse {})
}

pub(super) async fn unsubscribe(
    runtime: Arc<Runtime>,
    params: ThreadUnsubscribeParams,
    request: Arc<dyn Request>,
) -> Reply<ThreadUnsubscribeResponse> {
    Ok(ThreadUnsubscribeResponse { status: runtime.unsubscribe(&params.thread_id, &request).await? })
}

pub(super) async fn settings_update(
    runtime: Arc<Runtime>,
    params: ThreadSettingsUpdateParams,
    request: Arc<dyn Request>,
) -> Reply<ThreadSettingsUpdateResponse> {
    runtime.update_settings(params, &request).await?;
    Ok(ThreadSettingsUpdateResponse {})
}
