//! Ids on the wire.

use std::fmt;

use uuid::Uuid;

/// The id of a thread: a UUID, in lower case with hyphens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(Uuid);

/// A text that is no thread id; its `Display` is the part after `invalid thread id: `.
///
/// Clients know these texts (`protocol/connection.md`, section 2), so they are ours and not the parser's, which has
/// changed them between versions. Places count from 1, groups from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// A character that no UUID has.
    #[error(
        "invalid character: expected an optional prefix of `urn:uuid:` followed by [0-9a-fA-F-], found `{found}` at {at}"
    )]
    Character {
        /// The character.
        found: char,
        /// Its place in bytes.
        at: usize,
    },
    /// Digits without hyphens, but not 32 of them.
    #[error("invalid length: expected length 32 for simple format, found {0}")]
    Length(usize),
    /// Too few or too many hyphens.
    #[error("invalid group count: expected 5, found {0}")]
    Groups(usize),
    /// A group of digits that is too short or too long.
    #[error("invalid group length in group {group}: expected {expected}, found {found}")]
    GroupLength {
        /// Which group.
        group: usize,
        /// Its length in a UUID.
        expected: usize,
        /// Its length here.
        found: usize,
    },
}

impl IdError {
    /// What keeps a text from being a UUID, the first thing first.
    fn of(text: &str) -> IdError {
        let braced = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let (digits, start) = match (braced, text.strip_prefix("urn:uuid:")) {
            (Some(digits), _) => (digits, 1),
            (None, Some(digits)) => (digits, "urn:uuid:".len()),
            (None, None) => (text, 0),
        };
        let foreign = digits.char_indices().find(|(_, char)| !char.is_ascii_hexdigit() && *char != '-');
        if let Some((index, found)) = foreign {
            return IdError::Character { found, at: start + index + 1 };
        }
        let groups: Vec<&str> = digits.split('-').collect();
        if groups.len() == 1 && start == 0 {
            return IdError::Length(text.len());
        }
        let lengths = [8, 4, 4, 4, 12];
        if groups.len() != lengths.len() {
            return IdError::Groups(groups.len());
        }
        let wrong =
            groups.iter().zip(lengths).enumerate().find(|(_, (group, length))| group.len() != *length);
        wrong.map_or(IdError::Length(text.len()), |(group, (digits, expected))| IdError::GroupLength {
            group,
            expected,
            found: digits.len(),
        })
    }
}

impl ThreadId {
    /// A thread id from any form of a UUID.
    ///
    /// # Errors
    /// The text is no UUID.
    pub fn parse(text: &str) -> Result<ThreadId, IdError> {
        text.parse().map(ThreadId).map_err(|_| IdError::of(text))
    }
}

impl From<Uuid> for ThreadId {
    fn from(id: Uuid) -> ThreadId {
        ThreadId(id)
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_id_may_have_any_form() {
        let id = "01a22fcf-8e84-7153-9b2c-417748c2c733";
        for form in [id.to_owned(), id.to_uppercase(), format!("urn:uuid:{id}"), id.replace('-', "")] {
            assert_eq!(ThreadId::parse(&form).unwrap().to_string(), id);
        }
    }

    #[test]
    fn what_is_no_id_is_named() {
        let check = |text: &str, expected: &str| {
            assert_eq!(ThreadId::parse(text).unwrap_err().to_string(), expected);
        };
        let character =
            "invalid character: expected an optional prefix of `urn:uuid:` followed by [0-9a-fA-F-], found";
        check("abc", "invalid length: expected length 32 for simple format, found 3");
        check("", "invalid length: expected length 32 for simple format, found 0");
        check("nope", &format!("{character} `n` at 1"));
        check("urn:uuid:é", &format!("{character} `é` at 10"));
        check("01a22fcf-8e84", "invalid group count: expected 5, found 2");
        check(
            "01a22fcf-8e84-7153-9b2c-417748c2c73",
            "invalid group length in group 4: expected 12, found 11",
        );
    }
}
