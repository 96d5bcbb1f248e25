//! `view_image`: an image file for the model, an `imageView` item for the clients.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use super::super::recorder::raw;
use super::super::turn::{TurnContext, internal};
use super::{Call, Output, Stop};
use crate::tools;
use crate::tools::image::{ViewImageArguments, data_url};

pub(super) async fn view_image(turn: &Arc<TurnContext>, call: &Call<'_>) -> Output {
    let arguments: ViewImageArguments = match tools::arguments(call.input) {
        Ok(arguments) => arguments,
        Err(text) => return Ok(json!(text)),
    };
    let path = super::path_in(Path::new(&turn.settings.cwd), &arguments.path);
    let url = match tokio::task::block_in_place(|| data_url(&path)) {
        Ok(url) => url,
        Err(error) => return Ok(json!(error.to_string())),
    };
    let now_ms = turn.runtime.clock.now_ms();
    let mut wire = json!({"type": "imageView", "id": call.id, "path": path.display().to_string(),
        "startedAtMs": now_ms, "completedAtMs": null});
    let shown = raw(&wire).map_err(|error| Stop::Failed(internal(error)))?;
    turn.tell(turn.notify.item_started(&turn.turn.id, shown, now_ms));
    wire["completedAtMs"] = json!(now_ms);
    turn.item_done(&[], wire, now_ms).await?;
    Ok(json!([{"type": "input_image", "image_url": url, "detail": "high"}]))
}
