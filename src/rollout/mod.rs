//! (module rollout: to be written)
