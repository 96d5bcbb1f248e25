//! Commands: started, fed, watched, ended; some of them outlive the call that started them.
//!
//! [`session::Sessions`] holds the commands of one thread. [`session::Sessions::start`] gives a [`session::Session`],
//! [`session::Session::collect`] waits for its output up to a time, and [`answer::answer`] is the text for the model.
//! [`environment`] makes a command's environment, [`shell`] its argument vector.
//!
//! **Invariants:**
//! - A command is the leader of its own session and process group, and the whole group is signalled; what has left the
//!   group is found by its mark ([`left`]).
//! - It gets a signal when the server dies, and inherits nothing but its standard streams (`spawn`).
//! - What is kept of its output is bounded ([`output`]), whatever it writes.

pub mod answer;
pub mod environment;
pub mod left;
pub mod output;
pub mod session;
pub mod shell;

pub(in crate::tools) mod process;
pub(in crate::tools) mod spawn;
#[cfg(test)]
mod tests;
mod usage;
