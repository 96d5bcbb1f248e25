//! Pure functions from recorded lines to what is derived from them: turns, items, usage, metadata, model context.
//!
//! [`Projector`] takes lines one by one and gives changes; its state can be stored, so that reading goes on where it
//! ended. [`context`] makes the input of the next model request. [`preview`] makes a thread's preview.
//!
//! **Invariant:** no clock, no files, no database: the same lines always give the same result.

mod bare;
mod legacy;
mod paginated;
mod turns;

pub mod context;
pub mod facts;
pub mod preview;
pub mod projector;

#[cfg(test)]
mod tests;

pub use self::projector::{Change, Projector, TurnState, UsageChange};
