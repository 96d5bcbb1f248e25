//! (module server: to be written)
