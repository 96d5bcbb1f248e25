//! What is known of models.

/// Model of a thread whose configuration names none.
pub const DEFAULT_MODEL: &str = "gpt-5.5";

/// Context window of a model that nothing is known of.
const UNKNOWN_WINDOW: i64 = 272_000;

/// A known model.
#[derive(Clone, Copy, Debug)]
pub struct ModelInfo {
    /// Name on the wire.
    pub model: &'static str,
    /// Context window in tokens.
    pub context_window: i64,
    /// Effort used when none is set.
    pub default_effort: &'static str,
    /// Service tiers it can be asked for.
    pub service_tiers: &'static [&'static str],
}

/// The known models.
pub const MODELS: &[ModelInfo] = &[
    ModelInfo {
        model: "gpt-5.5",
        context_window: 272_000,
        default_effort: "medium",
        service_tiers: &["priority"],
    },
    ModelInfo {
        model: "gpt-6.2-sol",
        context_window: 500_000,
        default_effort: "medium",
        service_tiers: &["priority"],
    },
];

/// A known model by its name.
pub fn find(model: &str) -> Option<&'static ModelInfo> {
    MODELS.iter().find(|info| info.model == model)
}

/// The context window as clients are told of it: 95 % of the model's (`protocol/usage.md`, section 1).
pub fn reported_window(model: &str, configured: Option<i64>) -> i64 {
    let window = configured.or_else(|| find(model).map(|info| info.context_window)).unwrap_or(UNKNOWN_WINDOW);
    window.saturating_mul(95) / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_reported_with_a_margin() {
        assert_eq!(reported_window("mock-model", None), 258_400);
        assert_eq!(reported_window("gpt-6.2-sol", None), 475_000);
        assert_eq!(reported_window("mock-model", Some(1000)), 950);
    }
}
