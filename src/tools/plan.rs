//! The arguments of `update_plan`.

use serde::Deserialize;

/// What the model is told after its plan was taken.
pub const PLAN_UPDATED: &str = "Plan updated";

/// The whole plan as the model sees it now.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PlanArguments {
    /// Why it changed.
    #[serde(default)]
    pub explanation: Option<String>,
    /// The steps in order.
    pub plan: Vec<PlanStep>,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PlanStep {
    /// What is to be done.
    pub step: String,
    /// How far it is.
    pub status: StepStatus,
}

/// How far a step is, in the words of the model's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not begun.
    Pending,
    /// Being worked on.
    InProgress,
    /// Done.
    Completed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read() {
        let text = r#"{"plan":[{"step":"look","status":"in_progress"}]}"#;
        let plan: PlanArguments = crate::tools::arguments(text).unwrap();
        assert_eq!(plan.plan, [PlanStep { step: "look".into(), status: StepStatus::InProgress }]);
        assert_eq!(
            crate::tools::arguments::<PlanArguments>("{}").unwrap_err(),
            "failed to parse function arguments: missing field `plan` at line 1 column 2"
        );
    }
}
