//! The grammar of a patch.
//!
//! ```text
//! *** Begin Patch
//! *** Add File: PATH        lines that all begin with +
//! *** Delete File: PATH
//! *** Update File: PATH     [*** Move to: PATH] and chunks:
//! @@ [a line above it]      several of them narrow the place down
//!  kept, -old, +new
//! *** End of File           the chunk stands at the end of the file
//! *** End Patch
//! ```
//!
//! Lenient where models err without ambiguity (blank lines around, white space after a marker, the `@@` of the first
//! chunk left out, numbers in an `@@` as in a unified diff), strict elsewhere: every other line is an error with its number.

use thiserror::Error;

/// A patch as it is written, not yet fitted to any file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// The file sections in order; at least one.
    pub sections: Vec<Section>,
}

/// What a patch says about one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Section {
    /// A new file with this content.
    Add {
        /// As written.
        path: String,
        /// The whole file; each line ends in a line feed.
        content: String,
    },
    /// The file goes.
    Delete {
        /// As written.
        path: String,
    },
    /// The file changes, moves, or both.
    Update {
        /// As written.
        path: String,
        /// The new place, as written.
        move_to: Option<String>,
        /// The changes from top to bottom.
        chunks: Vec<Chunk>,
    },
}

/// One place in a file and what changes there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chunk {
    /// Lines further up that lead to the place, from the outermost on.
    pub headers: Vec<String>,
    /// The lines of the place.
    pub lines: Vec<Line>,
    /// The place is the end of the file.
    pub at_end: bool,
}

/// One line of a [`Chunk`], without its line feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// Stays as it is.
    Keep(String),
    /// Goes.
    Remove(String),
    /// Is new.
    Insert(String),
}

/// A patch that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid patch: line {line}: {problem}")]
pub struct ParseError {
    /// Counted from 1 in the text as given.
    pub line: usize,
    /// What is wrong, and what was expected.
    pub problem: String,
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// Reads a patch.
pub fn parse(text: &str) -> Result<Patch, ParseError> {
    let mut reader = Reader { lines: text.lines().collect(), at: 0 };
    reader.skip_blank();
    match reader.next() {
        Some(line) if line.trim() == BEGIN => {}
        _ => return Err(reader.error_before(format!("a patch begins with `{BEGIN}`"))),
    }
    let mut sections = Vec::new();
    loop {
        reader.skip_blank();
        let Some(line) = reader.next() else {
            reader.at += 1;
            return Err(reader.error_before(format!("the patch has no `{END}`")));
        };
        let line = line.trim_end();
        if line.trim_start() == END {
            break;
        } else if let Some(path) = line.strip_prefix(ADD) {
            sections.push(Section::Add { path: reader.path(path)?, content: reader.added()? });
        } else if let Some(path) = line.strip_prefix(DELETE) {
            sections.push(Section::Delete { path: reader.path(path)? });
        } else if let Some(path) = line.strip_prefix(UPDATE) {
            let path = reader.path(path)?;
            sections.push(reader.update(path)?);
        } else {
            return Err(reader.error_before(format!(
                "expected `{ADD} PATH`, `{DELETE} PATH`, `{UPDATE} PATH` or `{END}`, got `{}`",
                excerpt(line)
            )));
        }
    }
    reader.skip_blank();
    if reader.next().is_some() {
        return Err(reader.error_before(format!("there is text after `{END}`")));
    }
    if sections.is_empty() {
        return Err(reader.error_before("the patch changes no file".into()));
    }
    Ok(Patch { sections })
}

struct Reader<'a> {
    lines: Vec<&'a str>,
    /// The index of the next line, so also the number of the line read last.
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'a str> {
        let line = self.peek()?;
        self.at += 1;
        Some(line)
    }

    fn skip_blank(&mut self) {
        while self.peek().is_some_and(|line| line.trim().is_empty()) {
            self.at += 1;
        }
    }

    fn error_before(&self, problem: String) -> ParseError {
        ParseError { line: self.at.max(1), problem }
    }

    fn path(&self, text: &str) -> Result<String, ParseError> {
        match text.trim() {
            "" => Err(self.error_before("a path is missing after the colon".into())),
            path => Ok(path.to_owned()),
        }
    }

    fn added(&mut self) -> Result<String, ParseError> {
        let mut content = String::new();
        while let Some(line) = self.peek() {
            if line.starts_with("*** ") {
                break;
            }
            self.at += 1;
            match line.strip_prefix('+') {
                Some(line) => {
                    content += line;
                    content.push('\n');
                }
                None if line.trim().is_empty() && self.ends_here() => {}
                None => {
                    let problem =
                        format!("each line of an added file begins with `+`, got `{}`", excerpt(line));
                    return Err(self.error_before(problem));
                }
            }
        }
        Ok(content)
    }

    /// Only blank lines stand before the next marker or the end.
    fn ends_here(&self) -> bool {
        let rest = self.lines[self.at.min(self.lines.len())..].iter();
        rest.copied().find(|line| !line.trim().is_empty()).is_none_or(|line| line.starts_with("*** "))
    }

    fn update(&mut self, path: String) -> Result<Section, ParseError> {
        let mut move_to = None;
        if let Some(target) = self.peek().and_then(|line| line.trim_end().strip_prefix(MOVE)) {
            self.at += 1;
            move_to = Some(self.path(target)?);
        }
        let mut chunks = Vec::new();
        loop {
            if self.peek().is_some_and(|line| line.trim().is_empty()) && self.ends_here() {
                self.skip_blank();
            }
            match self.peek() {
                None => break,
                Some(line) if line.starts_with("*** ") && line.trim_end() != END_OF_FILE => break,
                Some(_) => chunks.push(self.chunk(&path)?),
            }
        }
        if chunks.is_empty() && move_to.is_none() {
            return Err(self.error_before(format!("the update of `{path}` changes nothing")));
        }
        Ok(Section::Update { path, move_to, chunks })
    }

    fn chunk(&mut self, path: &str) -> Result<Chunk, ParseError> {
        let mut chunk = Chunk::default();
        while let Some(header) = self.peek().and_then(header) {
            self.at += 1;
            chunk.headers.extend(header);
        }
        while let Some(line) = self.peek() {
            if line.trim_end() == END_OF_FILE {
                self.at += 1;
                chunk.at_end = true;
                break;
            }
            if line.starts_with("*** ") || header(line).is_some() {
                break;
            }
            if line.trim().is_empty() && self.blank_line_ends() {
                break;
            }
            self.at += 1;
            let (mark, rest) = line.split_at(line.chars().next().map_or(0, char::len_utf8));
            chunk.lines.push(match mark {
                // Models drop the one blank of an empty kept line.
                "" => Line::Keep(String::new()),
                " " => Line::Keep(rest.to_owned()),
                "-" => Line::Remove(rest.to_owned()),
                "+" => Line::Insert(rest.to_owned()),
                _ => {
                    return Err(self.error_before(format!(
                        "in the update of `{path}` each line begins with a blank, `-`, `+` or `@@`, got `{}`",
                        excerpt(line)
                    )));
                }
            });
        }
        if chunk.lines.is_empty() {
            return Err(self.error_before(format!("a chunk of the update of `{path}` has no lines")));
        }
        Ok(chunk)
    }

    /// A wholly empty line before a file marker separates sections; it is no line of the file.
    fn blank_line_ends(&self) -> bool {
        let mut rest = self.lines[self.at..].iter().copied().skip_while(|line| line.is_empty());
        self.peek() == Some("")
            && rest.next().is_none_or(|line| line.starts_with("*** ") && line.trim_end() != END_OF_FILE)
    }
}

/// `Some(None)` for a bare `@@`, `Some(Some(text))` when it names a line.
fn header(line: &str) -> Option<Option<String>> {
    let rest = line.strip_prefix("@@")?;
    if rest.trim().is_empty() {
        return Some(None);
    }
    let rest = rest.strip_prefix(' ')?;
    let Some(named) = unified_numbers(rest) else {
        return Some(Some(rest.to_owned()));
    };
    Some(Some(named.to_owned()).filter(|named| !named.is_empty()))
}

/// What follows `-1,3 +1,4 @@ `; models that know unified diffs write such numbers, which say nothing here.
fn unified_numbers(text: &str) -> Option<&str> {
    let (numbers, rest) = text.split_once("@@")?;
    let mut words = numbers.split_whitespace();
    let is_range = |word: Option<&str>, sign| {
        word.and_then(|word| word.strip_prefix(sign))
            .is_some_and(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || c == ','))
    };
    let both = is_range(words.next(), '-') && is_range(words.next(), '+') && words.next().is_none();
    both.then(|| rest.strip_prefix(' ').unwrap_or(rest))
}

fn excerpt(line: &str) -> String {
    const CHARACTERS_MAX: usize = 80;
    match line.char_indices().nth(CHARACTERS_MAX) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}
