//! (module import: to be written)
