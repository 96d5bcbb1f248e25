//! Ids on the wire.

use std::fmt;

use uuid::Uuid;

/// The id of a thread: a UUID, in lower case with hyphens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(Uuid);

/// A text that is no thread id; its `Display` is the part after `invalid thread id: `.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct IdError(uuid::Error);

impl ThreadId {
    /// A thread id from any form of a UUID.
    ///
    /// # Errors
    /// The text is no UUID.
    pub fn parse(text: &str) -> Result<ThreadId, IdError> {
        text.parse().map(ThreadId).map_err(IdError)
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
        let error = |text: &str| ThreadId::parse(text).unwrap_err().to_string();
        assert_eq!(error("abc"), "invalid length: expected length 32 for simple format, found 3");
        assert!(error("nope").starts_with("invalid character: expected an optional prefix of `urn:uuid:`"));
    }
}
