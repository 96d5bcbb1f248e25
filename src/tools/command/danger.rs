//! Commands that are asked about, or refused, under every sandbox.

use super::words::{Part, split};

/// Why `command` is dangerous: the reason that follows its name in a refusal.
pub fn reason(command: &str) -> Option<&'static str> {
    let dangerous = match split(command) {
        Some(parts) => {
            parts.iter().any(|part| matches!(part, Part::Command(words) if is_forced_removal(words)))
        }
        // What cannot be read as words is looked through for the plain form.
        None => pieces(command).any(|words| is_forced_removal(&words)),
    };
    dangerous.then_some("rm -f style commands are not permitted. Use a safer approach")
}

/// The refusal's text for the model, to be put into [`crate::tools::exec::answer::rejected`].
pub fn refusal(shown: &str, reason: &str) -> String {
    format!("`{shown}` rejected: {reason}")
}

fn pieces(command: &str) -> impl Iterator<Item = Vec<String>> {
    command
        .split([';', '|', '&', '\n', '(', ')', '`', '{', '}'])
        .map(|piece| piece.split_whitespace().map(|word| word.trim_matches(['"', '\'']).to_owned()).collect())
}

fn is_forced_removal(words: &[String]) -> bool {
    let mut words = words.iter().map(String::as_str);
    let mut program = words.next();
    // Wrappers and assignments in front of the program.
    while let Some(word) = program {
        let is_wrapper = matches!(
            word,
            "sudo" | "env" | "command" | "nohup" | "time" | "exec" | "xargs" | "then" | "do" | "else" | "!"
        );
        if !is_wrapper && !word.contains('=') && !word.starts_with('-') {
            break;
        }
        program = words.next();
    }
    let name = program.map(|program| program.rsplit('/').next().unwrap_or(program));
    match name {
        Some("rm") => words.take_while(|word| *word != "--").any(is_force),
        Some("bash" | "sh" | "zsh" | "dash") => {
            let rest: Vec<&str> = words.collect();
            let script = rest.iter().position(|word| word.starts_with('-') && word.ends_with('c'));
            script.and_then(|at| rest.get(at + 1)).is_some_and(|script| reason(script).is_some())
        }
        _ => false,
    }
}

fn is_force(word: &str) -> bool {
    word == "--force" || (word.starts_with('-') && !word.starts_with("--") && word.contains('f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forced_removal_is_dangerous_wherever_it_stands() {
        for command in [
            "rm -rf x",
            "rm -f x",
            "rm -r -f x",
            "rm --force x",
            "cd a && rm -rf b",
            "sudo rm -fr /",
            "/bin/rm -rf x",
            "FOO=1 rm -rf x",
            "bash -c 'rm -rf x'",
            "rm -rf $HOME",
            "(rm -rf x)",
            "find . | xargs rm -f",
            "ls; rm -rf *",
        ] {
            assert!(reason(command).is_some(), "{command}");
        }
        for command in ["rm x", "rm -r x", "echo 'rm -rf x'", "rm -- -f", "ls", "grep -rf x y", "firm -f"] {
            assert!(reason(command).is_none(), "{command}");
        }
        assert_eq!(
            refusal("/bin/bash -lc 'rm -rf x'", reason("rm -rf x").unwrap()),
            "`/bin/bash -lc 'rm -rf x'` rejected: rm -f style commands are not permitted. Use a safer approach"
        );
    }
}
