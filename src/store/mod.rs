//! (module store: to be written; `rows` is the border)
pub mod rows;
