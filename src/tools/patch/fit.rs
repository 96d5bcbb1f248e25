//! Finding the place of a chunk in a file, and the file's new content.
//!
//! Four passes, each more lenient: exact; without white space at line ends; without white space at both ends; with
//! typographic dashes, quotes and blanks made plain. Kept lines stay byte for byte as the file has them, whatever the
//! patch wrote, and every line keeps its own line ending.

use super::parse::{Chunk, Line};

/// The new content, or the text that says which lines were not found.
pub fn fit(content: &str, chunks: &[Chunk]) -> Result<String, String> {
    let lines: Vec<&str> = content.split_inclusive('\n').collect();
    let bare: Vec<&str> = lines.iter().map(|line| without_ending(line)).collect();
    let ending = if 2 * lines.iter().filter(|line| line.ends_with("\r\n")).count() > lines.len() {
        "\r\n"
    } else {
        "\n"
    };
    let mut result = Vec::with_capacity(lines.len());
    let mut cursor = 0;
    for chunk in chunks {
        let (start, lines_of_chunk) = place(&bare, cursor, chunk)?;
        result.extend(lines[cursor..start].iter().map(|line| (*line).to_owned()));
        cursor = start;
        for line in lines_of_chunk {
            match line {
                Line::Keep(_) => {
                    result.push(lines[cursor].to_owned());
                    cursor += 1;
                }
                Line::Remove(_) => cursor += 1,
                Line::Insert(text) => result.push(format!("{text}{ending}")),
            }
        }
    }
    result.extend(lines[cursor..].iter().map(|line| (*line).to_owned()));
    let last = result.len().saturating_sub(1);
    for line in &mut result[..last] {
        if !line.ends_with('\n') {
            line.push_str(ending);
        }
    }
    Ok(result.concat())
}

/// Where the chunk begins, and those of its lines that count.
fn place<'a>(file: &[&str], cursor: usize, chunk: &'a Chunk) -> Result<(usize, &'a [Line]), String> {
    let mut from = cursor;
    let mut header_at = None;
    for header in &chunk.headers {
        let at = seek(file, from, std::slice::from_ref(&header.as_str()))
            .ok_or_else(|| format!("failed to find the line named by `@@ {header}`"))?;
        header_at = Some(at);
        from = at + 1;
    }
    let old = old_lines(&chunk.lines);
    if old.is_empty() {
        let at = if header_at.is_some() && !chunk.at_end { from } else { file.len() };
        return Ok((at, &chunk.lines));
    }
    if chunk.at_end && file.len().saturating_sub(old.len()) >= from {
        let tail = file.len() - old.len().min(file.len());
        if seek(file, tail, &old) == Some(tail) {
            return Ok((tail, &chunk.lines));
        }
    }
    if let Some(at) = seek(file, from, &old) {
        return Ok((at, &chunk.lines));
    }
    // The line of the header may be repeated as the first line of the chunk.
    if let Some(at) = header_at.filter(|at| seek(file, *at, &old) == Some(*at)) {
        return Ok((at, &chunk.lines));
    }
    // An empty kept line at the end often stands for the end of the file.
    if let Some((Line::Keep(last), rest)) = chunk.lines.split_last()
        && last.is_empty()
        && old.len() > 1
        && let Some(at) = seek(file, from, &old[..old.len() - 1])
    {
        return Ok((at, rest));
    }
    Err(format!("failed to find the expected lines:\n{}", old.join("\n")))
}

fn old_lines(lines: &[Line]) -> Vec<&str> {
    let old = |line| match line {
        &Line::Keep(ref text) | &Line::Remove(ref text) => Some(text.as_str()),
        Line::Insert(_) => None,
    };
    lines.iter().filter_map(old).collect()
}

fn without_ending(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

/// The first place at or after `from` where `pattern` stands, in the strictest pass that finds one.
fn seek(file: &[&str], from: usize, pattern: &[&str]) -> Option<usize> {
    if pattern.len() > file.len() {
        return None;
    }
    let starts = || from..=file.len() - pattern.len();
    let find = |same: &dyn Fn(&str, &str) -> bool| {
        starts().find(|start| file[*start..].iter().zip(pattern).all(|(line, wanted)| same(line, wanted)))
    };
    find(&|line, wanted| line == wanted)
        .or_else(|| find(&|line, wanted| line.trim_end() == wanted.trim_end()))
        .or_else(|| find(&|line, wanted| line.trim() == wanted.trim()))
        .or_else(|| find(&|line, wanted| line.trim().chars().map(plain).eq(wanted.trim().chars().map(plain))))
}

fn plain(character: char) -> char {
    match character {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::patch::parse::{Section, parse};

    fn fitted(content: &str, body: &str) -> Result<String, String> {
        let patch = parse(&format!("*** Begin Patch\n*** Update File: f\n{body}\n*** End Patch")).unwrap();
        let Section::Update { chunks, .. } = &patch.sections[0] else { panic!("an update") };
        fit(content, chunks)
    }

    fn check(content: &str, body: &str, expected: &str) {
        assert_eq!(fitted(content, body).as_deref(), Ok(expected));
    }

    #[test]
    fn chunks_change_their_places_from_top_to_bottom() {
        check("a\nb\nc\nd\n", "@@\n-a\n+A\n@@\n c\n-d\n+D", "A\nb\nc\nD\n");
        check("x\na\nx\na\n", "@@\n-a\n+1\n@@\n-a\n+2", "x\n1\nx\n2\n");
    }

    #[test]
    fn headers_lead_to_the_place() {
        check("fn a\n x\nfn b\n x\n", "@@ fn b\n- x\n+ y", "fn a\n x\nfn b\n y\n");
        check("c1\n m\n  x\nc2\n m\n  x\n", "@@ c2\n@@  m\n-  x\n+  y", "c1\n m\n  x\nc2\n m\n  y\n");
        check("fn a\nx\n", "@@ fn a\n fn a\n-x\n+y", "fn a\ny\n");
        check("fn a\nfn b\n", "@@ fn a\n+new", "fn a\nnew\nfn b\n");
        check("a\n", "@@ -1,1 +1,1 @@\n-a\n+b", "b\n");
    }

    #[test]
    fn the_end_of_the_file_can_be_meant() {
        check("a\nb\na\n", "@@\n-a\n+z\n*** End of File", "a\nb\nz\n");
        check("a\n", "@@\n+b", "a\nb\n");
        check("", "@@\n+b", "b\n");
    }

    #[test]
    fn white_space_and_typography_may_differ_and_kept_lines_stay() {
        check("a  \nb\n", "@@\n a\n-b\n+c", "a  \nc\n");
        check("\ta\nb\n", "@@\n a\n-b\n+c", "\ta\nc\n");
        check("“a” – b\nc\n", "@@\n \"a\" - b\n-c\n+d", "“a” – b\nd\n");
    }

    #[test]
    fn line_endings_stay() {
        check("a\r\nb\r\n", "@@\n a\n-b\n+c\n+d", "a\r\nc\r\nd\r\n");
        check("a\nb", "@@\n-a\n+c", "c\nb");
        check("a\nb", "@@\n b\n+c", "a\nb\nc\n");
    }

    #[test]
    fn lines_that_are_not_there_are_named() {
        assert_eq!(
            fitted("a\n", "@@\n-no such line\n+x").unwrap_err(),
            "failed to find the expected lines:\nno such line"
        );
        assert!(fitted("a\n", "@@ gone\n-a\n+x").unwrap_err().contains("@@ gone"));
    }
}
