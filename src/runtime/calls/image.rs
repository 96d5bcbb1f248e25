//! `view_image`: an image file for the model, an `imageView` item for the clients.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use super::super::turn::TurnContext;
use super::{Call, Output};
use crate::tools;
use crate::tools::image::{ViewImageArguments, data_url};

pub(super) async fn view_image(turn: &Arc<TurnContext>, call: &Call<'_>) -> Output {
    let arguments: ViewImageArguments = tools::arguments(call.input)?;
    let path = super::path_in(Path::new(&turn.settings.cwd), &arguments.path);
    let url = tokio::task::block_in_place(|| data_url(&path)).map_err(|error| error.to_string())?;
    let now_ms = turn.runtime.clock.now_ms();
    let wire = json!({"type": "imageView", "id": call.id, "path": path.display().to_string(),
        "startedAtMs": now_ms, "completedAtMs": null});
    turn.item_started(&wire);
    turn.item_done(wire).await?;
    Ok(json!([{"type": "input_image", "image_url": url, "detail": "high"}]))
}
