//! Rules on commands by their first words: `rules/*.rules` in the home.
//!
//! A file has one rule a line, `prefix_rule(pattern=["git","status"], decision="allow")`, and comments after `#`.
//! `default.rules` is the one that answers of clients are added to.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use serde::Deserialize;
use thiserror::Error;

use super::words::{Part, split};

/// What a rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// Run it without asking.
    Allow,
    /// Ask.
    Prompt,
    /// Refuse it.
    Forbidden,
}

/// A rule on all commands that begin with these words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixRule {
    /// The words; each place may have alternatives.
    pub pattern: Vec<Vec<String>>,
    /// What then.
    pub decision: Decision,
}

/// All rules of a home.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<PrefixRule>,
}

/// Why the rules could not be read or added to.
#[derive(Debug, Error)]
pub enum RulesError {
    /// A line is no rule.
    #[error("{path}:{line}: {problem}")]
    Line {
        /// The file.
        path: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// A file or the folder cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

const FOLDER: &str = "rules";
const DEFAULT_FILE: &str = "default.rules";

impl Rules {
    /// The rules of all files under `home/rules`, and what could not be read of them.
    pub fn load(home: &Path) -> (Rules, Vec<RulesError>) {
        let mut rules = Rules::default();
        let mut problems = Vec::new();
        let Ok(entries) = fs::read_dir(home.join(FOLDER)) else { return (rules, problems) };
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "rules"));
        paths.sort();
        for path in paths {
            let shown = path.display().to_string();
            match fs::read_to_string(&path) {
                Ok(text) => rules.read(&text, &shown, &mut problems),
                Err(source) => problems.push(RulesError::File { path: shown, source }),
            }
        }
        (rules, problems)
    }

    fn read(&mut self, text: &str, path: &str, problems: &mut Vec<RulesError>) {
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match parse_line(line) {
                Ok(rule) => self.rules.push(rule),
                Err(problem) => {
                    problems.push(RulesError::Line { path: path.to_owned(), line: at + 1, problem })
                }
            }
        }
    }

    /// Adds an `allow` rule to these and to `home/rules/default.rules`; nothing is written when it is there already.
    pub fn allow(&mut self, home: &Path, prefix: &[String]) -> Result<(), RulesError> {
        let rule = PrefixRule {
            pattern: prefix.iter().map(|word| vec![word.clone()]).collect(),
            decision: Decision::Allow,
        };
        if prefix.is_empty() || self.rules.contains(&rule) {
            return Ok(());
        }
        let path = home.join(FOLDER).join(DEFAULT_FILE);
        append(&path, &format!("prefix_rule(pattern={}, decision=\"allow\")\n", list(prefix)))
            .map_err(|source| RulesError::File { path: path.display().to_string(), source })?;
        self.rules.push(rule);
        Ok(())
    }

    /// What the rules say of a command: of its own words when it is one or several simple commands (every one of them
    /// must be ruled on; the strictest decision counts), else of its whole argument vector.
    pub fn decide(&self, command: &str, argv: &[String]) -> Option<Decision> {
        if let Some(decision) = self.decide_words(argv) {
            return Some(decision);
        }
        let parts = split(command)?;
        let mut decisions = Vec::new();
        for part in &parts {
            if let Part::Command(words) = part {
                decisions.push(self.decide_words(words));
            }
        }
        if decisions.contains(&Some(Decision::Forbidden)) {
            return Some(Decision::Forbidden);
        }
        decisions.into_iter().collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    fn decide_words(&self, words: &[String]) -> Option<Decision> {
        self.rules.iter().filter(|rule| rule.matches(words)).map(|rule| rule.decision).max()
    }
}

impl PrefixRule {
    fn matches(&self, words: &[String]) -> bool {
        self.pattern.len() <= words.len()
            && self.pattern.iter().zip(words).all(|(any, word)| any.contains(word))
    }
}

/// One write, so that two processes on the same home do not mix their lines.
fn append(path: &Path, line: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = fs::OpenOptions::new().create(true).append(true).read(true).open(path)?;
    let ends_open = fs::read(path)?.last().is_some_and(|last| *last != b'\n');
    file.write_all(format!("{}{line}", if ends_open { "\n" } else { "" }).as_bytes())?;
    file.sync_all()
}

fn list(words: &[String]) -> String {
    let words: Vec<String> =
        words.iter().map(|word| serde_json::Value::from(word.as_str()).to_string()).collect();
    format!("[{}]", words.join(","))
}

fn parse_line(line: &str) -> Result<PrefixRule, String> {
    let inner = line
        .strip_prefix("prefix_rule(")
        .and_then(|rest| rest.trim_end().strip_suffix(')'))
        .ok_or("expected `prefix_rule(pattern=[…], decision=\"…\")`")?;
    let mut pattern = None;
    let mut decision = Decision::Allow;
    let mut rest = inner.trim();
    while !rest.is_empty() {
        let (name, value) = rest.split_once('=').ok_or("expected `name=value`")?;
        let mut values = serde_json::Deserializer::from_str(value).into_iter::<serde_json::Value>();
        let found = values
            .next()
            .ok_or("a value is missing")?
            .map_err(|error| format!("in `{}`: {error}", name.trim()))?;
        rest = value[values.byte_offset()..].trim_start().trim_start_matches(',').trim();
        match name.trim() {
            "pattern" => {
                pattern = Some(
                    serde_json::from_value::<Vec<Words>>(found)
                        .map_err(|_| "`pattern` is a list of words")?,
                )
            }
            "decision" => {
                decision = serde_json::from_value(found)
                    .map_err(|_| "`decision` is \"allow\", \"prompt\" or \"forbidden\"")?;
            }
            // Remarks and examples of other writers.
            "justification" | "match" | "not_match" => {}
            other => return Err(format!("unknown name `{other}`")),
        }
    }
    let pattern: Vec<Vec<String>> =
        pattern.ok_or("`pattern` is missing")?.into_iter().map(Words::any).collect();
    if pattern.is_empty() {
        return Err("an empty `pattern` would match every command".into());
    }
    Ok(PrefixRule { pattern, decision })
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Words {
    One(String),
    Any(Vec<String>),
}

impl Words {
    fn any(self) -> Vec<String> {
        match self {
            Words::One(word) => vec![word],
            Words::Any(words) => words,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn decide(rules: &Rules, command: &str) -> Option<Decision> {
        rules.decide(command, &crate::tools::exec::shell::wrap(command, None, true))
    }

    #[test]
    fn an_answer_is_written_and_holds() {
        let home = tempfile::tempdir().unwrap();
        let (mut rules, problems) = Rules::load(home.path());
        assert!(problems.is_empty());
        rules.allow(home.path(), &words("touch a1")).unwrap();
        rules.allow(home.path(), &words("touch a1")).unwrap();
        let text = fs::read_to_string(home.path().join("rules/default.rules")).unwrap();
        assert_eq!(text, "prefix_rule(pattern=[\"touch\",\"a1\"], decision=\"allow\")\n");
        let (again, _) = Rules::load(home.path());
        assert_eq!(again, rules);
        assert_eq!(decide(&rules, "touch a1 b"), Some(Decision::Allow));
        assert_eq!(decide(&rules, "touch a1 && touch a1"), Some(Decision::Allow));
        assert_eq!(decide(&rules, "touch a1 && rm x"), None);
        assert_eq!(decide(&rules, "touch a1 > x"), None);
        assert_eq!(decide(&rules, "touch b"), None);
        let whole = crate::tools::exec::shell::wrap("a | b > c", None, true);
        rules.allow(home.path(), &whole).unwrap();
        assert_eq!(decide(&rules, "a | b > c"), Some(Decision::Allow));
    }

    #[test]
    fn a_file_may_have_more_than_we_write() {
        let mut rules = Rules::default();
        let mut problems = Vec::new();
        let text = "# ours\nprefix_rule(pattern = [\"git\", [\"push\", \"fetch\"]], decision = \"prompt\", justification = \"x\")\n\
                    prefix_rule(pattern=[\"git\"])\nnonsense\nprefix_rule(pattern=[])\nprefix_rule(decision=\"maybe\")\n";
        rules.read(text, "f", &mut problems);
        assert_eq!(decide(&rules, "git push"), Some(Decision::Prompt));
        assert_eq!(decide(&rules, "git status"), Some(Decision::Allow));
        let problems: Vec<String> = problems.iter().map(RulesError::to_string).collect();
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[0].starts_with("f:4: expected `prefix_rule("));
    }
}
