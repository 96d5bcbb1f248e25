//! What the model is offered: the `tools` member of its requests, as JSON.
//!
//! Functions are not strict (models may leave out what is optional) and take no member beyond those named.

use serde_json::{Value, json};

/// The grammar of a patch for models that write it as a custom tool.
const PATCH_GRAMMAR: &str = r#"start: begin section+ end
begin: "*** Begin Patch" LF
end: "*** End Patch" LF?

section: added | deleted | updated
added: "*** Add File: " path LF add_line+
deleted: "*** Delete File: " path LF
updated: "*** Update File: " path LF moved? chunk*
moved: "*** Move to: " path LF

add_line: "+" /(.*)/ LF
chunk: place* change_line+ at_end?
place: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
at_end: "*** End of File" LF

path: /(.+)/

%import common.LF
"#;

/// Runs a command.
pub fn exec_command() -> Value {
    function(
        "exec_command",
        "Run a shell command. The answer has its output and exit code, or a session id when it is still running after \
         the yield time; use write_stdin with that id to read on or to type into it. To change files you may send \
         `apply_patch <<'EOF'`, a patch and `EOF` as the command.",
        json!({
            "cmd": text("The command, as typed into a shell."),
            "workdir": text("Folder to run it in; the thread's folder when left out."),
            "shell": text("Shell program to run it with, when not the default one."),
            "login": flag("Whether the shell reads the user's profile first. True when left out."),
            "tty": flag("Whether to run it on a terminal, which is needed to type into it. False when left out."),
            "yield_time_ms": number("How many milliseconds to wait for its end before answering."),
            "max_output_tokens": number("How much output to answer at most, in tokens; the middle is left out."),
            "sandbox_permissions": choice(
                &["use_default", "require_escalated"],
                "`require_escalated` asks to run it without the sandbox.",
            ),
            "justification": text("With require_escalated: one sentence to the user on why it is needed."),
            "prefix_rule": {"type": "array", "items": {"type": "string"},
                "description": "With require_escalated: first words of commands that could be allowed from now on."},
        }),
        &["cmd"],
    )
}

/// Feeds a running command.
pub fn write_stdin() -> Value {
    function(
        "write_stdin",
        "Type into a running command's terminal and read what it has written since; with empty chars just read.",
        json!({
            "session_id": number("The session id that exec_command answered."),
            "chars": text("What to type; may be empty. Control characters are sent as they are."),
            "yield_time_ms": number("How many milliseconds to wait for output before answering."),
            "max_output_tokens": number("How much output to answer at most, in tokens."),
        }),
        &["session_id"],
    )
}

/// Runs a command to its end, for models that know only this form.
pub fn shell_command() -> Value {
    function(
        "shell_command",
        "Run a shell command to its end and answer its output and exit code.",
        json!({
            "command": text("The command, as typed into a shell."),
            "workdir": text("Folder to run it in; the thread's folder when left out."),
            "timeout_ms": number("After how many milliseconds it is ended."),
            "sandbox_permissions": choice(
                &["use_default", "require_escalated"],
                "`require_escalated` asks to run it without the sandbox.",
            ),
            "justification": text("With require_escalated: one sentence to the user on why it is needed."),
        }),
        &["command"],
    )
}

/// Changes files.
pub fn apply_patch() -> Value {
    json!({
        "type": "custom",
        "name": "apply_patch",
        "description": "Add, change, move and delete files by a patch. Send the patch text itself, not JSON. Give a few \
                        unchanged lines around each change, so that its place is unique.",
        "format": {"type": "grammar", "syntax": "lark", "definition": PATCH_GRAMMAR},
    })
}

/// Shows the plan to the user.
pub fn update_plan() -> Value {
    function(
        "update_plan",
        "Show the user your plan as it stands now: all steps in order, with at most one in progress.",
        json!({
            "explanation": text("Why the plan changed."),
            "plan": {"type": "array", "description": "All steps.", "items": object(
                json!({
                    "step": text("What is done in this step, in a few words."),
                    "status": choice(&["pending", "in_progress", "completed"], "How far it is."),
                }),
                &["step", "status"],
            )},
        }),
        &["plan"],
    )
}

/// Looks at an image.
pub fn view_image() -> Value {
    function(
        "view_image",
        "Look at an image file (PNG, JPEG, GIF or WebP) of the local file system.",
        json!({"path": text("The image file.")}),
        &["path"],
    )
}

/// Asks the user.
pub fn request_user_input() -> Value {
    let option = object(
        json!({"label": text("The answer, in a few words."), "description": text("What choosing it means.")}),
        &["label", "description"],
    );
    let question = object(
        json!({
            "id": text("A short name, by which you find the answer."),
            "header": text("A heading of one to three words."),
            "question": text("The question, in one sentence."),
            "options": {"type": "array", "description": "Two or three answers that exclude each other; the user may also \
                write another one.", "items": option},
        }),
        &["id", "header", "question", "options"],
    );
    function(
        "request_user_input",
        "Ask the user up to three short questions and wait for the answers.",
        json!({"questions": {"type": "array", "description": "The questions.", "items": question}}),
        &["questions"],
    )
}

/// Looks at the goal.
pub fn get_goal() -> Value {
    function(
        "get_goal",
        "See the goal of this thread: objective, status, usage and what is left of its budget.",
        json!({}),
        &[],
    )
}

/// Makes a goal.
pub fn create_goal() -> Value {
    function(
        "create_goal",
        "Give this thread a goal to be pursued over several turns. Only when the user asks for one.",
        json!({
            "objective": text("What is to be reached, in full."),
            "token_budget": {"type": "integer", "description": "How many tokens it may take; no limit when left out."},
        }),
        &["objective"],
    )
}

/// Ends or stops the goal.
pub fn update_goal() -> Value {
    function(
        "update_goal",
        "Say that the goal is complete, that it cannot be pursued, or that the user wants it paused.",
        json!({"status": choice(&["complete", "blocked", "paused"], "`paused` only when the user asks for it.")}),
        &["status"],
    )
}

/// Asks for more than the sandbox gives.
pub fn request_permissions() -> Value {
    let paths =
        |description| json!({"type": "array", "items": {"type": "string"}, "description": description});
    let files = object(
        json!({"read": paths("Files and folders to read."), "write": paths("Files and folders to write.")}),
        &[],
    );
    let network = object(json!({"enabled": flag("Whether commands may use the network.")}), &[]);
    function(
        "request_permissions",
        "Ask the user to widen the sandbox of your commands. The answer tells what was granted, and for how long.",
        json!({
            "reason": text("One sentence to the user on why it is needed."),
            "permissions": object(json!({"file_system": files, "network": network}), &[]),
        }),
        &["permissions"],
    )
}

/// A function with any schema, as clients and MCP servers define them.
pub fn function_with_schema(name: &str, description: &str, parameters: &Value) -> Value {
    json!({"type": "function", "name": name, "description": description, "strict": false, "parameters": parameters})
}

fn function(name: &str, description: &str, properties: Value, required: &[&str]) -> Value {
    function_with_schema(name, description, &object(properties, required))
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn number(description: &str) -> Value {
    json!({"type": "number", "description": description})
}

fn flag(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

fn choice(values: &[&str], description: &str) -> Value {
    json!({"type": "string", "enum": values, "description": description})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_requires_only_what_it_has() {
        for tool in [
            exec_command(),
            write_stdin(),
            shell_command(),
            update_plan(),
            view_image(),
            request_user_input(),
        ] {
            let parameters = &tool["parameters"];
            for name in parameters["required"].as_array().unwrap() {
                assert!(parameters["properties"].get(name.as_str().unwrap()).is_some(), "{tool}");
            }
            assert_eq!((&tool["type"], &tool["strict"]), (&json!("function"), &json!(false)));
        }
        assert_eq!(exec_command()["parameters"]["properties"].as_object().unwrap().len(), 10);
        assert_eq!(apply_patch()["format"]["syntax"], "lark");
    }
}
