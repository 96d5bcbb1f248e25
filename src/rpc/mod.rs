//! (module rpc: to be written)
