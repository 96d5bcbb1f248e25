//! Cutting the bytes of a rollout file into lines.

use std::io::{self, BufRead, Read};

/// Reads lines of any length from a file, keeping the exact bytes.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
}

impl<R: BufRead> Reader<R> {
    /// Read from here.
    pub fn new(source: R) -> Reader<R> {
        Reader { source }
    }

    /// Append the next line, its end included, to `into`. Returns how many bytes that are: 0 at the end of the file.
    /// A last line without its end is given as it is.
    ///
    /// # Errors
    /// The source's own.
    pub fn next_line(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        self.source.read_until(b'\n', into)
    }

    /// The same for a caller who wants to know of a line that is longer than this before all of it is read.
    ///
    /// # Errors
    /// As above.
    pub fn next_line_telling(
        &mut self,
        into: &mut Vec<u8>,
        longer_than: usize,
        tell: &mut dyn FnMut(),
    ) -> io::Result<usize> {
        let read = self.source.by_ref().take(longer_than as u64).read_until(b'\n', into)?;
        if read < longer_than || into.last() == Some(&b'\n') {
            return Ok(read);
        }
        tell();
        Ok(read + self.source.read_until(b'\n', into)?)
    }
}

/// The lines of some bytes, each with its end.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n')
}

/// A byte order mark.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// A line without its end, a byte order mark, and what a crash leaves of NUL bytes.
pub fn content(line: &[u8]) -> &[u8] {
    let line = line.strip_prefix(MARK).unwrap_or(line);
    let end = line
        .iter()
        .rposition(|byte| !matches!(byte, b'\n' | b'\r' | b' ' | b'\t' | 0))
        .map_or(0, |at| at + 1);
    let line = &line[..end];
    let start = line.iter().position(|byte| !matches!(byte, b'\r' | b' ' | b'\t' | 0)).unwrap_or(0);
    &line[start..]
}

/// The bytes of a file of May 2025, which is one JSON object over many lines, as one line of the same length and
/// value: line ends between its members become spaces. What follows the object is left as it is. `None` for other
/// files.
pub fn joined(bytes: &[u8]) -> Option<Vec<u8>> {
    let start = bytes.len() - bytes.strip_prefix(MARK).unwrap_or(bytes).len();
    let mut values = serde_json::Deserializer::from_slice(&bytes[start..]).into_iter::<Session>();
    values.next()?.ok()?;
    let end = start + values.byte_offset();
    let mut joined = bytes.to_vec();
    // A text cannot hold a bare line end, so these stand between members.
    joined[..end].iter_mut().filter(|byte| matches!(**byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    Some(joined)
}

#[derive(serde::Deserialize)]
struct Session {
    #[serde(rename = "session")]
    _session: serde::de::IgnoredAny,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_marks_and_nul_tails_are_no_content() {
        for (line, expected) in [
            (&b"{}\n"[..], &b"{}"[..]),
            (b"{}\r\n", b"{}"),
            (b"\xef\xbb\xbf{}\n", b"{}"),
            (b"{}\0\0\0", b"{}"),
            (b"\0\0{}\n", b"{}"),
            (b" \t\r\n", b""),
            (b"", b""),
        ] {
            assert_eq!(content(line), expected, "{line:?}");
        }
    }

    #[test]
    fn lines_keep_every_byte() {
        let bytes = b"a\r\n\nb\0\nlast";
        assert_eq!(lines(bytes).collect::<Vec<_>>().concat(), bytes);
        let mut reader = Reader::new(&bytes[..]);
        let mut all = Vec::new();
        let mut sizes = Vec::new();
        loop {
            match reader.next_line(&mut all).unwrap() {
                0 => break,
                size => sizes.push(size),
            }
        }
        assert_eq!((all.as_slice(), sizes), (&bytes[..], vec![3, 1, 3, 4]));
    }
}
