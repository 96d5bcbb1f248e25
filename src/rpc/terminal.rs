//! `thread/shellCommand`, `thread/backgroundTerminals/*`.

use std::sync::Arc;

use super::error::RpcError;
use crate::protocol::thread::{
    ThreadBackgroundTerminalsCleanParams, ThreadBackgroundTerminalsCleanResponse,
    ThreadBackgroundTerminalsListParams, ThreadBackgroundTerminalsListResponse,
    ThreadBackgroundTerminalsTerminateParams, ThreadBackgroundTerminalsTerminateResponse,
    ThreadShellCommandParams, ThreadShellCommandResponse,
};
use crate::runtime::Runtime;
use crate::runtime::client::Request;

type Reply<T> = Result<T, RpcError>;

pub(super) async fn shell_command(
    runtime: Arc<Runtime>,
    params: ThreadShellCommandParams,
    request: Arc<dyn Request>,
) -> Reply<ThreadShellCommandResponse> {
    runtime.user_command(params, &request).await?;
    Ok(ThreadShellCommandResponse {})
}

pub(super) async fn list(
    runtime: Arc<Runtime>,
    params: ThreadBackgroundTerminalsListParams,
    _: Arc<dyn Request>,
) -> Reply<ThreadBackgroundTerminalsListResponse> {
    Ok(runtime.list_terminals(&params)?)
}

pub(super) async fn terminate(
    runtime: Arc<Runtime>,
    params: ThreadBackgroundTerminalsTerminateParams,
    _: Arc<dyn Request>,
) -> Reply<ThreadBackgroundTerminalsTerminateResponse> {
    Ok(ThreadBackgroundTerminalsTerminateResponse { terminated: runtime.terminate_terminal(&params)? })
}

pub(super) async fn clean(
    runtime: Arc<Runtime>,
    params: ThreadBackgroundTerminalsCleanParams,
    _: Arc<dyn Request>,
) -> Reply<ThreadBackgroundTerminalsCleanResponse> {
    runtime.clean_terminals(&params)?;
    Ok(ThreadBackgroundTerminalsCleanResponse {})
}
