//! (module protocol: to be written)
