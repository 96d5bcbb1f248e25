//! The request of a turn: the context, the tools, and what the provider is told of both (`protocol/model-api.md`).

use serde_json::{Value, json};

use super::{RunningTurn, TurnOptions, compaction, internal};
use crate::model::catalog;
use crate::model::request::{Body, Reasoning, Request};
use crate::protocol::error::TurnError;
use crate::runtime::{calls, prompt};

impl RunningTurn {
    /// The next request, with the settings and the goal that it is asked under.
    pub(super) async fn request(&mut self) -> Result<Request, TurnError> {
        self.asked = self.context.step.current();
        self.counted = self.context.goals.counting();
        let (context, asked) = (&self.context, &self.asked);
        tokio::select! {
            () = async { context.tools.servers().settled().await } => {}
            () = context.cancel.cancelled() => {}
        }
        let (input, window_number, session_id) = {
            let mut recorder = context.recorder.lock().await;
            let input = match &context.side {
                Some(side) => side.input().await,
                None => recorder.context().await.map_err(internal)?,
            };
            (input, recorder.window_number(), recorder.row().session_id.clone())
        };
        let settings = &context.settings;
        let thread_id = context.notify.thread_id.to_string();
        let window_id = format!("{thread_id}:{window_number}");
        let turn_metadata = json!({
            "session_id": session_id, "thread_id": thread_id, "turn_id": context.turn.id, "window_id": window_id,
            "window_number": window_number, "request_kind": "turn", "root_turn_id": context.turn.root_turn_id,
            "turn_started_at_unix_ms": context.started_at_ms, "model": asked.model,
        });
        let turn_metadata = with_members(turn_metadata, &context.options);
        let effort = asked
            .effort
            .clone()
            .or_else(|| catalog::find(&asked.model).map(|info| info.default_effort.to_owned()));
        let summary =
            asked.summary.as_ref().map(|summary| json!(summary)).filter(|summary| summary != "none");
        let text = context.options.output_schema.as_ref().map(|schema| {
            json!({"format": {"type": "json_schema", "strict": true, "schema": schema, "name": "output_schema"}})
        });
        let client_metadata = json!({
            "turn_id": context.turn.id, "root_turn_id": context.turn.root_turn_id, "x-codex-window-id": window_id,
            "x-codex-turn-metadata": turn_metadata, "thread_id": thread_id, "session_id": session_id,
        });
        let instructions =
            settings.base_instructions.clone().unwrap_or_else(|| prompt::BASE_INSTRUCTIONS.to_owned());
        Ok(Request {
            body: Body {
                model: asked.model.clone(),
                instructions,
                stream: true,
                input,
                tools: calls::offered(context),
                tool_choice: "auto",
                parallel_tool_calls: true,
                reasoning: Reasoning { effort, summary },
                store: false,
                include: ["reasoning.encrypted_content"],
                service_tier: asked.tier_on_the_wire(),
                prompt_cache_key: thread_id.clone(),
                text,
                client_metadata,
            },
            thread_id,
            session_id,
            originator: context.runtime.originator(),
            user_agent: context.runtime.user_agent(),
            window_id,
            turn_metadata,
            turn_state: self.turn_state.clone(),
            subagent: context.side.is_some().then_some("review"),
        })
    }

    pub(super) fn compaction_limit(&self) -> i64 {
        compaction::limit(&self.asked.model, &self.context.config)
    }

    pub(super) fn window(&self) -> i64 {
        catalog::reported_window(&self.asked.model, self.context.config.model_context_window)
    }
}

/// The turn's metadata as text, with what started it and what the client has for it.
fn with_members(mut metadata: Value, options: &TurnOptions) -> String {
    if let Some(trigger) = &options.trigger {
        metadata["turn_trigger"] = json!(trigger);
    }
    for (key, value) in &options.metadata {
        metadata[key] = json!(value);
    }
    metadata.to_string()
}
