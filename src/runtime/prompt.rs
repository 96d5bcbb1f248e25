//! What the model is told beside the conversation: base instructions, the permissions, the environment, the
//! project's instructions. All texts are our own; the tags around them are those that other readers of rollouts
//! know (`protocol/model-api.md`, section 2).
//!
//! Context is recorded as model items before the user message of a turn, and only the parts that have changed since
//! the model was last told: nothing before is ever rewritten, so that a provider's prompt cache holds.

use serde_json::{Value, json};

use super::settings::Settings;
use crate::protocol::approval::AskForApproval;
use crate::protocol::settings::{ModeKind, SandboxPolicy};

/// The base instructions of a thread that brings none of its own.
pub const BASE_INSTRUCTIONS: &str = "\
You are a coding agent that works in a user's terminal and file system through tools.

Work until the request is fully done, then say briefly what you did and what the user should know. Look before you \
change: read the files concerned, follow the conventions of the project, and keep a change as small as the task \
allows. Verify your work with the project's own tests and tools when there are any. Never undo or overwrite changes \
that are not yours unless you are asked to. If something cannot be done, say so plainly and say why.

Answer in plain, friendly sentences. Use Markdown where it helps. Name files by their path.";

const PLAN_INSTRUCTIONS: &str = "\
You are in plan mode. Explore and ask, but change nothing. When the way is clear, present one complete plan inside a \
<proposed_plan> block and wait for the user's word before any of it is carried out.";

/// The text that comes with a mode when the client gives none.
pub fn mode_instructions(mode: ModeKind) -> Option<&'static str> {
    match mode {
        ModeKind::Plan => Some(PLAN_INSTRUCTIONS),
        _ => None,
    }
}

/// One part of the context: who says it and what.
struct Part {
    role: &'static str,
    text: String,
}

/// The context messages that the model has not been told yet, as model items, and the new state of what it was told.
pub fn context_messages(
    settings: &Settings,
    instructions: Option<&str>,
    now: &str,
) -> (Vec<Value>, Vec<String>) {
    let parts = parts(settings, instructions);
    let told: Vec<String> = parts.iter().map(|part| part.text.clone()).collect();
    let new: Vec<&Part> = parts.iter().filter(|part| !settings.told.contains(&part.text)).collect();
    let mut items = Vec::new();
    let developer: Vec<Value> = new
        .iter()
        .filter(|part| part.role == "developer")
        .map(|part| json!({"type": "input_text", "text": part.text}))
        .collect();
    if !developer.is_empty() {
        items.push(json!({"type": "message", "role": "developer", "content": developer}));
    }
    for part in new.iter().filter(|part| part.role == "user") {
        let text = part.text.replace(DATE_PLACE, now);
        items.push(
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}),
        );
    }
    (items, told)
}

/// Stands for the date in what is remembered as told: a new day alone is no news.
const DATE_PLACE: &str = "{date}";

fn parts(settings: &Settings, instructions: Option<&str>) -> Vec<Part> {
    let mut parts = vec![Part { role: "developer", text: permissions(settings) }];
    if let Some(text) = &settings.developer_instructions {
        parts.push(Part { role: "developer", text: text.clone() });
    }
    if let Some(text) = &settings.mode_instructions {
        parts.push(Part {
            role: "developer",
            text: format!("<collaboration_mode>\n{text}\n</collaboration_mode>"),
        });
    }
    if let Some(text) = settings.personality.and_then(personality) {
        parts.push(Part {
            role: "developer",
            text: format!("<personality_spec>\n{text}\n</personality_spec>"),
        });
    }
    if let Some(text) = instructions {
        parts.push(Part { role: "user", text: text.to_owned() });
    }
    parts.push(Part { role: "user", text: environment(settings) });
    parts
}

fn permissions(settings: &Settings) -> String {
    let sandbox = match &settings.sandbox_policy {
        SandboxPolicy::ReadOnly { .. } => "Commands run in a sandbox that can read files but not write any.",
        SandboxPolicy::WorkspaceWrite { network_access: true, .. } => {
            "Commands run in a sandbox that can write only inside the workspace roots and the temporary folders."
        }
        SandboxPolicy::WorkspaceWrite { .. } => {
            "Commands run in a sandbox that can write only inside the workspace roots and the temporary folders, and \
             has no network."
        }
        SandboxPolicy::DangerFullAccess | SandboxPolicy::ExternalSandbox { .. } => {
            "Commands run without a sandbox."
        }
    };
    let approval = match &settings.approval_policy {
        AskForApproval::Never => "You cannot ask the user for more; work within these bounds.",
        AskForApproval::OnRequest => "Where a task needs more, ask for it with a justification.",
        _ => "The user is asked before commands and changes.",
    };
    format!("<permissions instructions>\n{sandbox}\n{approval}\n</permissions instructions>")
}

fn personality(personality: crate::protocol::settings::Personality) -> Option<&'static str> {
    use crate::protocol::settings::Personality;
    match personality {
        Personality::None => None,
        Personality::Friendly => Some("Be warm and encouraging; speak as a kind colleague would."),
        Personality::Pragmatic => Some("Be brief and matter-of-fact; lead with what is to be done."),
    }
}

fn environment(settings: &Settings) -> String {
    let roots: String = settings.workspace_roots.iter().map(|root| format!("<root>{root}</root>")).collect();
    format!(
        "<environment_context>\n  <cwd>{}</cwd>\n  <shell>bash</shell>\n  <current_date>{DATE_PLACE}</current_date>\n  \
         <workspace_roots>{roots}</workspace_roots>\n</environment_context>",
        settings.cwd
    )
}

/// The base instructions of a review.
pub const REVIEW_INSTRUCTIONS: &str = "\
You review code that somebody else has changed. Look at the changes yourself with the tools you have (git diff, git show, \
reading the files around them), and change nothing. Report what its author would want to mend: wrong results, crashes, \
lost or leaked data, races, broken callers, missing checks. Each finding must be something that the changes brought in, \
be certain enough to act on, and name one place. Leave out style and taste. When there is nothing to report, report \
nothing.\n\n\
Answer with one JSON object alone: {\"summary\": two or three sentences, \"verdict\": \"correct\" or \"needs work\", \
\"findings\": [{\"title\": one line, \"body\": why it is wrong and when it shows, \"priority\": 0 (must be mended now) to \
3 (minor), \"file\": path, \"line_start\": number, \"line_end\": number}]}.";

/// Asks for the summary of a compaction.
pub const COMPACTION: &str = "\
Your context is nearly full and will be cleared. Write a summary for yourself that lets you go on without anything else: \
what the user wants, word for word where the wording matters; what has been done and found out, with the names of files \
and commands; decisions and their reasons; what is still open, and the very next step. Answer with the summary alone.";

/// Comes before the summary that stands for the past.
pub const SUMMARY_HEAD: &str = "\
The conversation up to here was summarised to make room. Your own summary of it follows; go on from there.";

/// The message that tells the model that a turn was interrupted.
pub const TURN_ABORTED: &str = "<turn_aborted>\nThe user interrupted this turn. Commands that were running may have \
                                had part of their effect.\n</turn_aborted>";
