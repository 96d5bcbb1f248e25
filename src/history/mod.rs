//! (module history: to be written)
