//! (module config: to be written)
