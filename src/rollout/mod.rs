//! Rollout files: the JSONL lines of every generation, read and written (`protocol/rollout.md`).
//!
//! Reading gives values and complaints, never a lost file for a bad line: [`read::Reader`] cuts bytes into lines and
//! [`line::parse`] classifies each. Writing makes the lines of today in one of two forms ([`write::LineWriter`]).
//! [`item`] converts items between the wire and the lines, [`name`] knows the names of the files.
//!
//! **Invariant:** no file is opened here but through a reader that the caller gives.

pub mod item;
pub mod line;
pub mod name;
pub mod read;
pub mod write;
