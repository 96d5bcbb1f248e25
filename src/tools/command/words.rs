//! A shell command as its words and the operators between them.

/// A piece of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// The words of one simple command, quotes removed.
    Command(Vec<String>),
    /// `&&`, `||`, `;`, `|` or a line feed.
    Operator(Operator),
}

/// What stands between two simple commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `&&`
    And,
    /// `||`
    Or,
    /// `;` or a line feed
    Then,
    /// `|`
    Pipe,
}

/// Splits a command; `None` when it has anything whose effect cannot be read off its words.
pub fn split(command: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut words = Vec::new();
    let mut rest = command.trim();
    loop {
        rest = rest.trim_start_matches([' ', '\t']);
        if let Some((operator, after)) = operator(rest) {
            if words.is_empty() && operator != Operator::Then {
                return None;
            }
            if !words.is_empty() {
                parts.push(Part::Command(std::mem::take(&mut words)));
                parts.push(Part::Operator(operator));
            }
            rest = after;
            continue;
        }
        if rest.is_empty() {
            break;
        }
        let (word, after) = word(rest)?;
        words.push(word);
        rest = after;
    }
    match words.is_empty() {
        false => parts.push(Part::Command(words)),
        true => match parts.last() {
            Some(Part::Operator(Operator::Then)) => {
                parts.pop();
            }
            Some(Part::Operator(_)) => return None,
            _ => {}
        },
    }
    Some(parts)
}

fn operator(text: &str) -> Option<(Operator, &str)> {
    let operators = [
        ("&&", Operator::And),
        ("||", Operator::Or),
        (";;", Operator::Pipe),
        (";", Operator::Then),
        ("\n", Operator::Then),
        ("|&", Operator::Pipe),
        ("|", Operator::Pipe),
    ];
    // `;;` belongs to a case and `|&` also redirects: neither is read.
    let (sign, operator) = operators.into_iter().find(|(sign, _)| text.starts_with(sign))?;
    (sign != ";;" && sign != "|&").then(|| (operator, &text[sign.len()..]))
}

/// One word with its quotes removed, and what follows it.
fn word(text: &str) -> Option<(String, &str)> {
    let mut word = String::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        match character {
            ' ' | '\t' | '\n' | ';' | '|' => return Some((word, &text[text.len() - rest.len() - 1..])),
            '&' if rest.starts_with('&') => return Some((word, &text[text.len() - rest.len() - 1..])),
            '\'' => {
                let (inner, after) = rest.split_once('\'')?;
                word += inner;
                rest = after;
            }
            '"' => rest = double_quoted(rest, &mut word)?,
            '\\' => {
                let escaped = rest.chars().next().filter(|c| *c != '\n')?;
                word.push(escaped);
                rest = &rest[escaped.len_utf8()..];
            }
            '$' | '`' | '<' | '>' | '(' | ')' | '&' | '*' | '?' | '[' | '{' | '}' => return None,
            '#' | '~' | '!' if word.is_empty() => return None,
            other => word.push(other),
        }
    }
    Some((word, rest))
}

fn double_quoted<'a>(text: &'a str, word: &mut String) -> Option<&'a str> {
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some(&text[at + 1..]),
            '$' | '`' => return None,
            '\\' => match characters.next()?.1 {
                escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                other => word.extend(['\\', other]),
            },
            other => word.push(other),
        }
    }
    None
}
