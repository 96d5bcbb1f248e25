//! A thread's preview: the first user message, as a list shows it (`protocol/rollout.md`, section 6).

/// What an editor puts between its context and the user's own words.
const REQUEST_MARK: &str = "## My request for Codex:";

/// The most bytes of a preview. No client can send more (`protocol/turns.md`), but a file may have any text, which every
/// list would show.
const BYTES_MAX: usize = 4 << 20;

/// The preview of a text; empty when nothing is left of it.
pub fn of_text(text: &str) -> String {
    let own = text.rfind(REQUEST_MARK).map_or(text, |at| &text[at + REQUEST_MARK.len()..]).trim();
    own[..own.floor_char_boundary(BYTES_MAX)].trim_end().to_owned()
}

/// The preview of a message with this text, with images or audio beside it.
pub fn of_message(text: &str, has_image: bool, has_audio: bool) -> String {
    let text = of_text(text);
    match (text.is_empty(), has_image, has_audio) {
        (false, ..) => text,
        (true, true, _) => "[Image]".to_owned(),
        (true, false, true) => "[Audio]".to_owned(),
        (true, false, false) => String::new(),
    }
}

/// Texts that programs put into user messages of the bare generation; they are no user's words.
const INJECTED: &[&str] = &[
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<user_action>",
    "<turn_aborted>",
    "<permissions instructions>",
    "<skills_instructions>",
    "<collaboration_mode>",
    "<model_switch>",
    "<codex_internal_context",
];

/// Whether a text of a user message was put there by a program.
pub fn is_injected(text: &str) -> bool {
    let text = text.trim_start();
    INJECTED.iter().any(|prefix| text.starts_with(prefix))
}

/// The working directory that an injected environment tells of.
pub fn cwd_of_environment(text: &str) -> Option<&str> {
    let (_, after) = text.trim_start().strip_prefix("<environment_context>")?.split_once("<cwd>")?;
    Some(after.split_once("</cwd>")?.0.trim()).filter(|cwd| !cwd.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_after_the_last_mark_count() {
        assert_eq!(of_text("context\n## My request for Codex:\n fix it \n"), "fix it");
        assert_eq!(of_text("  two\nlines "), "two\nlines");
        let long = "é".repeat(BYTES_MAX);
        assert_eq!(of_text(&format!(" a{long}")).len(), BYTES_MAX - 1);
        assert_eq!(of_message(" ", true, true), "[Image]");
        assert_eq!(of_message("", false, true), "[Audio]");
    }
}
