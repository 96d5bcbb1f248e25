//! `turn/*`.

use std::sync::Arc;

use super::error::RpcError;
use crate::protocol::review::{ReviewStartParams, ReviewStartResponse};
use crate::protocol::settings::{TurnSettingsUpdateParams, TurnSettingsUpdateResponse};
use crate::protocol::turn::{
    TurnInterruptParams, TurnInterruptResponse, TurnStartParams, TurnStartResponse, TurnSteerParams,
    TurnSteerResponse,
};
use crate::runtime::Runtime;
use crate::runtime::client::Request;

pub(super) async fn start(
    runtime: Arc<Runtime>,
    params: TurnStartParams,
    request: Arc<dyn Request>,
) -> Result<TurnStartResponse, RpcError> {
    Ok(TurnStartResponse { turn: runtime.start_turn(params, &request).await? })
}

pub(super) async fn steer(
    runtime: Arc<Runtime>,
    params: TurnSteerParams,
    _: Arc<dyn Request>,
) -> Result<TurnSteerResponse, RpcError> {
    Ok(TurnSteerResponse { turn_id: runtime.steer_turn(params).await? })
}

pub(super) async fn review(
    runtime: Arc<Runtime>,
    params: ReviewStartParams,
    request: Arc<dyn Request>,
) -> Result<ReviewStartResponse, RpcError> {
    Ok(runtime.start_review(params, &request).await?)
}

pub(super) async fn interrupt(
    runtime: Arc<Runtime>,
    params: TurnInterruptParams,
    request: Arc<dyn Request>,
) -> Result<TurnInterruptResponse, RpcError> {
    runtime.interrupt_turn(params, &request).await?;
    Ok(TurnInterruptResponse {})
}

pub(super) async fn settings_update(
    runtime: Arc<Runtime>,
    params: TurnSettingsUpdateParams,
    _: Arc<dyn Request>,
) -> Result<TurnSettingsUpdateResponse, RpcError> {
    Ok(TurnSettingsUpdateResponse { status: runtime.update_turn_settings(params).await? })
}
