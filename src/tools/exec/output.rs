//! Output as text: decoded as it comes, and kept with its beginning and its end.

use std::collections::VecDeque;

/// Kept of each end of a command's output: what a person may still want to scroll through.
const END_BYTES: usize = 512 * 1024;

/// The rough size of a token, for budgets and counts.
const BYTES_A_TOKEN: usize = 4;

/// A text that grows without limit, of which the middle is forgotten.
#[derive(Debug, Default)]
pub struct HeadTail {
    head: String,
    tail: VecDeque<String>,
    tail_bytes: usize,
    forgotten_bytes: usize,
}

impl HeadTail {
    /// Adds text at the end.
    pub fn push(&mut self, text: &str) {
        let room = END_BYTES.saturating_sub(self.head.len());
        let (head, rest) = if self.tail.is_empty() { text.split_at(floor(text, room)) } else { ("", text) };
        self.head += head;
        if rest.is_empty() {
            return;
        }
        self.tail_bytes += rest.len();
        self.tail.push_back(rest.to_owned());
        while let Some(first) =
            self.tail.front().map(String::len).filter(|first| self.tail_bytes - first >= END_BYTES)
        {
            self.tail.pop_front();
            self.tail_bytes -= first;
            self.forgotten_bytes += first;
        }
    }

    /// The whole length, forgotten parts included.
    pub fn bytes(&self) -> usize {
        self.head.len() + self.tail_bytes + self.forgotten_bytes
    }

    /// The text; where something was forgotten a line says so.
    pub fn text(&self) -> String {
        let mut text = self.head.clone();
        if self.forgotten_bytes > 0 {
            text += &format!("\n… {} bytes truncated …\n", self.forgotten_bytes);
        }
        text.extend(self.tail.iter().map(String::as_str));
        text
    }
}

/// How many tokens a text of so many bytes is, roughly.
pub fn tokens(bytes: usize) -> usize {
    bytes.div_ceil(BYTES_A_TOKEN)
}

/// At most about `tokens_max` of a text, from both of its ends, with a mark between.
pub fn truncate(text: &str, tokens_max: usize) -> String {
    let bytes_max = tokens_max.saturating_mul(BYTES_A_TOKEN);
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let head = &text[..floor(text, bytes_max / 2)];
    let tail = &text[ceil(text, text.len() - bytes_max / 2)..];
    let left_out = tokens(text.len() - head.len() - tail.len());
    format!("Total output lines: {}\n\n{head}…{left_out} tokens truncated…{tail}", text.lines().count())
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn ceil(text: &str, at: usize) -> usize {
    (at..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// Bytes to text across reads that may cut a character in two.
#[derive(Debug, Default)]
pub struct Decoder {
    rest: Vec<u8>,
}

impl Decoder {
    /// The text that is complete by now; what is no UTF-8 becomes U+FFFD.
    pub fn decode(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let mut text = String::with_capacity(self.rest.len());
        let mut done = 0;
        for chunk in self.rest.utf8_chunks() {
            text += chunk.valid();
            done += chunk.valid().len();
            let invalid = chunk.invalid();
            let at_end = done + invalid.len() == self.rest.len();
            if at_end && !invalid.is_empty() && may_continue(invalid) {
                break;
            }
            if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
            done += invalid.len();
        }
        self.rest.drain(..done);
        text
    }

    /// What is left when nothing more comes.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.rest).into_owned();
        self.rest.clear();
        text
    }
}

fn may_continue(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_text_keeps_its_ends() {
        let mut kept = HeadTail::default();
        kept.push("first\n");
        for _ in 0..40_000 {
            kept.push("0123456789012345678901234567890123456789\n");
        }
        kept.push("last\n");
        let text = kept.text();
        assert!(text.starts_with("first\n") && text.ends_with("\nlast\n") && text.contains("truncated"));
        assert!(text.len() < 3 * END_BYTES);
        assert_eq!(kept.bytes(), 6 + 40_000 * 41 + 5);
    }

    #[test]
    fn a_budget_leaves_both_ends() {
        assert_eq!(truncate("short", 100), "short");
        assert_eq!(
            truncate(&"ä".repeat(100), 10),
            format!("Total output lines: 1\n\n{0}…40 tokens truncated…{0}", "ä".repeat(10))
        );
    }

    proptest! {
        #[test]
        fn cuts_between_reads_do_not_show(bytes: Vec<u8>, at in 0usize..64, text in "\\PC{0,20}") {
            for bytes in [bytes, text.into_bytes()] {
                let at = at.min(bytes.len());
                let mut decoder = Decoder::default();
                let decoded = decoder.decode(&bytes[..at]) + &decoder.decode(&bytes[at..]) + &decoder.finish();
                prop_assert_eq!(decoded, String::from_utf8_lossy(&bytes));
            }
        }
    }
}
