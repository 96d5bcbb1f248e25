//! (module model: to be written)
