//! What the next request of a running turn asks the model with (`protocol/settings.md`, section 3).
//!
//! A turn begins with its thread's settings; `turn/settings/update` changes them for the later requests of that turn
//! alone. The thread's settings and later turns stay as they are.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::catalog;
use crate::protocol::settings::{ReasoningSummary, TurnSettingsUpdateParams};
use crate::runtime::error::{Result, RuntimeError};
use crate::runtime::settings::{Settings, check_effort};

/// The feature that `turn/settings/update` needs.
pub const FEATURE: &str = "step_model_switching";

/// The part of the settings that may change from request to request.
#[derive(Clone, Debug, PartialEq)]
pub struct StepSettings {
    /// Model asked.
    pub model: String,
    /// Reasoning effort; `None` leaves it to the model.
    pub effort: Option<String>,
    /// Reasoning summary; `None` leaves it to the model.
    pub summary: Option<ReasoningSummary>,
    /// Service tier, as set.
    pub service_tier: Option<String>,
}

/// The settings of a turn's next request, shared by the turn, which reads them, and its thread, which changes them.
#[derive(Debug)]
pub struct NextStep(Mutex<StepSettings>);

impl NextStep {
    /// What a turn with these settings begins with.
    pub fn new(settings: &Settings, service_tier_for_turn: Option<&str>) -> NextStep {
        NextStep(Mutex::new(StepSettings {
            model: settings.model.clone(),
            effort: settings.effort.clone(),
            summary: settings.summary,
            service_tier: service_tier_for_turn.map(str::to_owned).or_else(|| settings.service_tier.clone()),
        }))
    }

    /// As of now.
    pub fn current(&self) -> StepSettings {
        self.lock().clone()
    }

    /// Change what a request names.
    ///
    /// # Errors
    /// Nothing is known of the one model or the other, or a value cannot be; nothing is changed then.
    pub fn update(&self, params: &TurnSettingsUpdateParams) -> Result<()> {
        let mut step = self.lock();
        let asks_model = params.model.is_some()
            || params.effort.is_some()
            || params.summary.is_some()
            || params.service_tier.is_some();
        if asks_model && catalog::find(&step.model).is_none() {
            return Err(RuntimeError::invalid("the active model has only fallback metadata"));
        }
        if params.model.as_deref().is_some_and(|model| catalog::find(model).is_none()) {
            return Err(RuntimeError::invalid("the destination model has only fallback metadata"));
        }
        if let Some(effort) = &params.effort {
            check_effort(effort)?;
            step.effort = Some(effort.clone());
        }
        if let Some(model) = &params.model {
            step.model.clone_from(model);
        }
        step.summary = params.summary.or(step.summary);
        if let Some(tier) = &params.service_tier {
            step.service_tier = Some(tier.clone());
        }
        Ok(())
    }

    /// Only whole values are put in, so a panic elsewhere cannot leave it half written.
    fn lock(&self) -> MutexGuard<'_, StepSettings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StepSettings {
    /// The tier that the provider is asked for: one that the model is known to have, under its wire name.
    pub fn tier_on_the_wire(&self) -> Option<String> {
        let tier = self.service_tier.as_deref().map(|tier| if tier == "fast" { "priority" } else { tier })?;
        catalog::find(&self.model)?.service_tiers.contains(&tier).then(|| tier.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(model: &str, tier: Option<&str>) -> StepSettings {
        StepSettings {
            model: model.to_owned(),
            effort: None,
            summary: None,
            service_tier: tier.map(str::to_owned),
        }
    }

    #[test]
    fn a_tier_is_asked_for_only_where_the_model_has_it() {
        for (model, tier, expected) in [
            ("gpt-5.5", Some("priority"), Some("priority")),
            ("gpt-5.5", Some("fast"), Some("priority")),
            ("gpt-5.5", Some("default"), None),
            ("gpt-5.5", None, None),
            ("mock-model", Some("priority"), None),
        ] {
            assert_eq!(step(model, tier).tier_on_the_wire().as_deref(), expected, "{model} {tier:?}");
        }
    }
}
