//! `request_user_input`: questions to the user, in plan mode only (`protocol/approvals.md`, section 6).

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::super::asking::Waiting;
use super::super::turn::TurnContext;
use super::{Call, Output, Stop, mode_name};
use crate::protocol::approval::{
    ToolRequestUserInputOption, ToolRequestUserInputParams, ToolRequestUserInputQuestion,
    ToolRequestUserInputResponse,
};
use crate::protocol::settings::ModeKind;
use crate::tools;

#[derive(Deserialize)]
struct Arguments {
    questions: Vec<Question>,
}

#[derive(Deserialize)]
struct Question {
    id: String,
    header: String,
    question: String,
    options: Vec<ToolRequestUserInputOption>,
}

pub(super) async fn request_user_input(turn: &Arc<TurnContext>, call: &Call<'_>) -> Output {
    if turn.settings.mode != ModeKind::Plan {
        let mode = mode_name(turn.settings.mode);
        return Ok(json!(format!("request_user_input is unavailable in {mode} mode")));
    }
    let arguments: Arguments = tools::arguments(call.input)?;
    let questions = arguments
        .questions
        .into_iter()
        .map(|Question { id, header, question, options }| ToolRequestUserInputQuestion {
            header,
            id,
            is_other: true,
            is_secret: false,
            options: Some(options),
            question,
        })
        .collect();
    let params = ToolRequestUserInputParams {
        auto_resolution_ms: None,
        is_blocking: true,
        item_id: call.id.to_owned(),
        questions,
        thread_id: turn.notify.thread_id.to_string(),
        turn_id: turn.turn.id.clone(),
    };
    let method = "item/tool/requestUserInput";
    let Some(answer) = turn.asking.ask(method, Waiting::UserInput, &params).await else {
        return Err(Stop::Interrupted.into());
    };
    let answered = answer
        .ok()
        .filter(|answer| serde_json::from_value::<ToolRequestUserInputResponse>(answer.clone()).is_ok());
    Ok(json!(answered.map_or_else(|| "request_user_input failed".to_owned(), |answer| answer.to_string())))
}
