//! What a command does, for people: which files it reads, what it lists or searches.

use std::path::{Path, PathBuf};

use super::words::{Operator, Part, split};
use crate::tools::{exec::shell::display, patch::verify::absolute};

/// One thing that a command does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Shows a file.
    Read {
        /// The part of the command that does it.
        command: String,
        /// The file's name.
        name: String,
        /// The file, absolute.
        path: PathBuf,
    },
    /// Lists files.
    ListFiles {
        /// The part of the command that does it.
        command: String,
        /// Where, as written.
        path: Option<String>,
    },
    /// Searches in files or for files.
    Search {
        /// The part of the command that does it.
        command: String,
        /// What for.
        query: Option<String>,
        /// Where, as written.
        path: Option<String>,
    },
    /// Something else.
    Unknown {
        /// The whole command.
        command: String,
    },
}

/// What `command`, run in `cwd`, does; at least one action. If any part of it is unknown the whole is.
pub fn actions(command: &str, cwd: &Path) -> Vec<Action> {
    let unknown = || vec![Action::Unknown { command: command.to_owned() }];
    let Some(parts) = split(command) else { return unknown() };
    let mut cwd = cwd.to_owned();
    let mut found: Vec<Action> = Vec::new();
    let mut piped = false;
    for part in &parts {
        match part {
            Part::Operator(Operator::Or) => return unknown(),
            Part::Operator(operator) => piped = *operator == Operator::Pipe,
            Part::Command(words) => match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                ["cd", folder] if !piped => cwd = absolute(&cwd, folder),
                // A filter of what came before it adds nothing to the meaning.
                words if piped && is_filter(words) && !found.is_empty() => {}
                words if !piped && is_small_talk(words) => {}
                words => match action(words, display_words(words), &cwd) {
                    Some(action) => found.push(action),
                    None => return unknown(),
                },
            },
        }
    }
    if found.is_empty() { unknown() } else { found }
}

fn display_words(words: &[&str]) -> String {
    display(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>())
}

/// Programs that only shorten, sort or count what they are fed.
fn is_filter(words: &[&str]) -> bool {
    let operands = operands(&words[1..], &["-n", "-c", "-k", "-t", "-f", "-d"]).len();
    match words[0] {
        "head" | "tail" | "sort" | "uniq" | "wc" | "cut" | "tr" | "column" | "nl" | "less" | "more" => {
            operands == 0 || matches!(words[0], "tr")
        }
        "sed" => words.get(1) == Some(&"-n") && words.len() == 3,
        _ => false,
    }
}

/// Commands between others that only print.
fn is_small_talk(words: &[&str]) -> bool {
    matches!(words[0], "echo" | "true" | "printf") && words.len() < 4 && words[0] != "true"
}

fn action(words: &[&str], command: String, cwd: &Path) -> Option<Action> {
    let rest = &words[1..];
    match words[0] {
        "cat" | "nl" | "bat" | "less" | "more" => read(command, single(&operands(rest, &[]))?, cwd),
        "head" | "tail" => read(command, single(&operands(rest, &["-n", "-c"]))?, cwd),
        "sed" => match rest {
            ["-n", range, file] if is_line_range(range) => read(command, file, cwd),
            _ => None,
        },
        "ls" | "tree" | "exa" | "eza" => {
            let path = operands(rest, &["-I", "-L", "-w"]).first().map(|path| path.to_string());
            Some(Action::ListFiles { command, path })
        }
        "rg" if rest.contains(&"--files") => {
            let path = operands(rest, &["-g", "--glob", "-t"]).first().map(|path| path.to_string());
            Some(Action::ListFiles { command, path })
        }
        "rg" | "grep" | "egrep" | "fgrep" | "ag" | "ack" => search(command, rest),
        "git" => match rest {
            ["grep", rest @ ..] => search(command, rest),
            ["ls-files", rest @ ..] => Some(Action::ListFiles {
                command,
                path: operands(rest, &[]).first().map(|path| path.to_string()),
            }),
            _ => None,
        },
        "find" => find(command, rest),
        "fd" => {
            let operands = operands(rest, &["-t", "-e", "-E", "-d"]);
            let path = operands.get(1).map(|path| path.to_string());
            match operands.first() {
                None => Some(Action::ListFiles { command, path: None }),
                Some(query) => Some(Action::Search { command, query: Some(query.to_string()), path }),
            }
        }
        _ => None,
    }
}

fn read(command: String, file: &str, cwd: &Path) -> Option<Action> {
    let path = absolute(cwd, file);
    let name = path.file_name()?.to_string_lossy().into_owned();
    Some(Action::Read { command, name, path })
}

fn search(command: String, rest: &[&str]) -> Option<Action> {
    const WITH_VALUE: [&str; 13] =
        ["-A", "-B", "-C", "-m", "-g", "--glob", "-t", "-T", "--type", "-f", "--include", "--exclude", "-j"];
    let mut with_value = WITH_VALUE.to_vec();
    let named = rest.iter().position(|word| matches!(*word, "-e" | "--regexp"));
    with_value.extend(["-e", "--regexp"]);
    let operands = operands(rest, &with_value);
    let (query, paths) = match named {
        Some(at) => (*rest.get(at + 1)?, operands.as_slice()),
        None => operands.split_first().map(|(query, paths)| (*query, paths))?,
    };
    let path = paths.first().map(|path| path.to_string());
    Some(Action::Search { command, query: Some(query.to_owned()), path })
}

fn find(command: String, rest: &[&str]) -> Option<Action> {
    if rest
        .iter()
        .any(|word| matches!(*word, "-delete" | "-exec" | "-execdir" | "-ok" | "-okdir" | "-fprint" | "-fls"))
    {
        return None;
    }
    let folder = rest.first().filter(|word| !word.starts_with('-'));
    let query =
        rest.windows(2).find(|pair| matches!(pair[0], "-name" | "-iname" | "-path" | "-ipath" | "-regex"));
    match query {
        Some(pair) => {
            let path = folder.map(|path| path.to_string());
            Some(Action::Search { command, query: Some(pair[1].to_owned()), path })
        }
        None => Some(Action::ListFiles { command, path: folder.map(|path| path.to_string()) }),
    }
}

/// The words that are no options, nor values of those options that take one.
fn operands<'a>(words: &[&'a str], with_value: &[&str]) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut words = words.iter();
    let mut only_operands = false;
    while let Some(word) = words.next() {
        if only_operands || !word.starts_with('-') || *word == "-" {
            found.push(*word);
        } else if *word == "--" {
            only_operands = true;
        } else if with_value.contains(word) {
            words.next();
        }
    }
    found
}

fn single<'a>(operands: &[&'a str]) -> Option<&'a str> {
    match operands {
        [one] if *one != "-" => Some(one),
        _ => None,
    }
}

/// `1,20p` and `5p`
fn is_line_range(text: &str) -> bool {
    text.strip_suffix('p').is_some_and(|range| {
        !range.is_empty()
            && range.split(',').all(|number| !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str, expected: &[Action]) {
        assert_eq!(actions(command, Path::new("/w")), expected, "{command}");
    }

    fn read_of(command: &str, path: &str) -> Action {
        let name = path.rsplit('/').next().unwrap().to_owned();
        Action::Read { command: command.into(), name, path: path.into() }
    }

    fn unknown(command: &str) {
        check(command, &[Action::Unknown { command: command.into() }]);
    }

    #[test]
    fn reading_is_recognised() {
        check("cat a.txt", &[read_of("cat a.txt", "/w/a.txt")]);
        check("cat foo | head -n 3", &[read_of("cat foo", "/w/foo")]);
        check("cd /tmp && cat a.txt", &[read_of("cat a.txt", "/tmp/a.txt")]);
        check("sed -n '1,20p' src/x.rs", &[read_of("sed -n 1,20p src/x.rs", "/w/src/x.rs")]);
        check("head -n 5 a; cat b", &[read_of("head -n 5 a", "/w/a"), read_of("cat b", "/w/b")]);
    }

    #[test]
    fn listing_and_searching_are_recognised() {
        check("ls", &[Action::ListFiles { command: "ls".into(), path: None }]);
        check("ls -la sub", &[Action::ListFiles { command: "ls -la sub".into(), path: Some("sub".into()) }]);
        let search = |command: &str, query: &str, path: Option<&str>| {
            let (command, query) = (command.to_owned(), Some(query.to_owned()));
            Action::Search { command, query, path: path.map(str::to_owned) }
        };
        check("grep words a.txt", &[search("grep words a.txt", "words", Some("a.txt"))]);
        check("rg -n 'a b' src", &[search("rg -n 'a b' src", "a b", Some("src"))]);
        check("grep -e x -r .", &[search("grep -e x -r .", "x", Some("."))]);
        check("find . -name '*.rs'", &[search("find . -name '*.rs'", "*.rs", Some("."))]);
        check("rg --files | head", &[Action::ListFiles { command: "rg --files".into(), path: None }]);
    }

    #[test]
    fn everything_else_is_unknown() {
        for command in [
            "true | false",
            "echo hello; exit 3",
            "cat $X",
            "cat a > b",
            "cat a || rm b",
            "ls `x`",
            "cat a b",
            "",
        ] {
            unknown(command);
        }
        unknown("find . -delete");
        unknown("cat a | sh");
        unknown("echo only");
    }
}
