//! The wire's types, one file a subject: what clients send and get (`protocol/` pages of the specification).
//!
//! Types keep the schema's names: `ThreadStartParams`, `ThreadStartResponse`, `…Notification`. Members have the
//! schema's names in snake case. An optional member of something that clients send may be missing or null; where the
//! two differ it is an `Option<Option<T>>`. A nullable member of something that the server sends is always there.
//!
//! **Invariant:** nothing here knows anything but serde and schemars: no clock, no files, no other module.

pub mod id;
pub mod method;
pub mod path;

pub mod account;
pub mod approval;
pub mod configuration;
pub mod connection;
pub mod error;
pub mod goal;
pub mod input;
pub mod item;
pub mod mcp;
pub mod misc;
pub mod model;
pub mod queue;
pub mod report;
pub mod review;
pub mod settings;
pub mod skills;
pub mod thread;
pub mod turn;
pub mod usage;

/// A member for which null and missing differ: `None` is missing, `Some(None)` is null.
pub mod double_option {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// A member that is there: null, or a value.
    ///
    /// # Errors
    /// As the value's own.
    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Option<T>>, D::Error> {
        Option::deserialize(from).map(Some)
    }

    /// The other way; a missing member is skipped before this is called.
    ///
    /// # Errors
    /// As the value's own.
    pub fn serialize<T: Serialize, S: Serializer>(
        value: &Option<Option<T>>,
        into: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().and_then(Option::as_ref).serialize(into)
    }
}
