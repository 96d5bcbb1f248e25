//! (module tools: to be written)
