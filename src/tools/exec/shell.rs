//! From a command text to an argument vector, and from that to a text for people.

use std::path::Path;

/// The shell that runs a command when the model names none.
pub const DEFAULT_SHELL: &str = "/bin/bash";

/// The argument vector that runs `command`; a login shell reads the user's profile first.
pub fn wrap(command: &str, shell: Option<&str>, login: bool) -> Vec<String> {
    let fallback = if Path::new(DEFAULT_SHELL).exists() { DEFAULT_SHELL } else { "/bin/sh" };
    let flag = if login { "-lc" } else { "-c" };
    vec![shell.unwrap_or(fallback).to_owned(), flag.to_owned(), command.to_owned()]
}

/// The vector as one line that a shell would read back as the same words.
pub fn display(argv: &[String]) -> String {
    argv.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if !word.contains('\'') {
        return format!("'{word}'");
    }
    // Double quotes read better than a chain of single ones, where nothing in the text is special to them.
    if !word.contains(['"', '$', '`', '\\', '!']) {
        return format!("\"{word}\"");
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_a_shell_would_read_it() {
        let check = |argv: &[&str], expected: &str| {
            let argv: Vec<String> = argv.iter().map(|word| word.to_string()).collect();
            assert_eq!(display(&argv), expected);
        };
        check(&["/bin/bash", "-lc", "echo hello; exit 3"], "/bin/bash -lc 'echo hello; exit 3'");
        check(&["ls"], "ls");
        check(&["echo", ""], "echo ''");
        check(&["echo", "it's"], "echo \"it's\"");
        check(&["echo", "it's $1"], r"echo 'it'\''s $1'");
    }
}
