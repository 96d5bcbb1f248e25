//! A patch inside a shell command: `apply_patch <<'EOF' … EOF`, with `cd DIR &&` before it or not.

/// A patch found in a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The folder that the command changed to first.
    pub workdir: Option<String>,
    /// The patch text.
    pub patch: String,
}

/// The patch that `command` consists of; `None` when the command does anything else besides.
pub fn find(command: &str) -> Option<Found> {
    let command = command.trim_start();
    let (workdir, rest) = match command.strip_prefix("cd ") {
        Some(rest) => {
            let (folder, rest) = word(rest.trim_start())?;
            (Some(folder), rest.trim_start().strip_prefix("&&")?.trim_start())
        }
        None => (None, command),
    };
    let rest = rest.strip_prefix("apply_patch").or_else(|| rest.strip_prefix("applypatch"))?;
    let patch = match rest.trim_start_matches([' ', '\t']).strip_prefix("<<") {
        Some(rest) => heredoc(rest)?,
        None => {
            let (patch, rest) = word(rest.strip_prefix([' ', '\t'])?.trim_start())?;
            (patch.trim_start().starts_with("*** Begin Patch") && rest.trim().is_empty()).then_some(patch)?
        }
    };
    Some(Found { workdir, patch })
}

/// The text between `EOF` and `EOF`; nothing may follow it.
fn heredoc(rest: &str) -> Option<String> {
    let (strip_tabs, rest) = match rest.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let (head, body) = rest.split_once('\n')?;
    let (delimiter, after) = word(head.trim())?;
    if delimiter.is_empty() || !after.trim().is_empty() {
        return None;
    }
    let mut patch = String::new();
    let mut lines = body.lines();
    for line in lines.by_ref() {
        let line = if strip_tabs { line.trim_start_matches('\t') } else { line };
        if line == delimiter {
            return lines.all(|line| line.trim().is_empty()).then_some(patch);
        }
        patch += line;
        patch.push('\n');
    }
    None
}

/// One shell word that needs no expansion, and what follows it.
fn word(text: &str) -> Option<(String, &str)> {
    for quote in ['\'', '"'] {
        if let Some(rest) = text.strip_prefix(quote) {
            let (word, rest) = rest.split_once(quote)?;
            let plain = quote == '\'' || !word.contains(['$', '`', '\\']);
            return (plain && (rest.is_empty() || rest.starts_with([' ', '\t', '\n', '&'])))
                .then(|| (word.to_owned(), rest));
        }
    }
    let end = text.find([' ', '\t', '\n']).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let plain = !word.is_empty() && !word.contains(|c| "$`\\'\"*?[]{}()<>|&;#!~".contains(c));
    plain.then(|| (word.to_owned(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str, expected: Option<(Option<&str>, &str)>) {
        let expected = expected
            .map(|(workdir, patch)| Found { workdir: workdir.map(str::to_owned), patch: patch.to_owned() });
        assert_eq!(find(command), expected, "{command}");
    }

    #[test]
    fn a_heredoc_is_a_patch() {
        check("apply_patch <<'EOF'\nx\nEOF\n", Some((None, "x\n")));
        check("apply_patch <<EOF\nx\nEOF", Some((None, "x\n")));
        check("apply_patch <<\"END\"\nx\nEND", Some((None, "x\n")));
        check("cd sub && apply_patch << 'EOF'\nx\nEOF", Some((Some("sub"), "x\n")));
        check("cd 'a b' && apply_patch <<'EOF'\nx\nEOF", Some((Some("a b"), "x\n")));
        check("apply_patch '*** Begin Patch\nx'", Some((None, "*** Begin Patch\nx")));
    }

    #[test]
    fn any_other_command_is_not() {
        check("apply_patch <<'EOF'\nx\nEOF\nrm y", None);
        check("apply_patch <<'EOF' && ls\nx\nEOF", None);
        check("cd $X && apply_patch <<'EOF'\nx\nEOF", None);
        check("cd a; apply_patch <<'EOF'\nx\nEOF", None);
        check("echo apply_patch", None);
        check("apply_patch <<'EOF'\nx\n", None);
        check("apply_patch file", None);
    }
}
