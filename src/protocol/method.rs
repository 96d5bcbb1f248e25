//! Which methods, and which members of their params, need the `experimentalApi` capability
//! (`protocol/connection.md`, section 4).

use serde_json::Value;

/// Methods that are refused without the capability. Only what we offer is listed; the rest is unknown anyway.
const EXPERIMENTAL_METHODS: &[&str] = &[
    "server/diagnostics",
    "thread/queue/add",
    "thread/queue/list",
    "thread/queue/update",
    "thread/queue/delete",
    "thread/queue/reorder",
    "thread/queue/start",
    "thread/settings/update",
    "turn/settings/update",
    "thread/memoryMode/set",
    "thread/backgroundTerminals/clean",
    "thread/backgroundTerminals/list",
    "thread/backgroundTerminals/terminate",
    "thread/items/read",
    "thread/readState/update",
    "thread/search",
    "thread/searchOccurrences",
    "collaborationMode/list",
];

/// Members of params that are refused without the capability, by method.
const EXPERIMENTAL_FIELDS: &[(&str, &[&str])] = &[
    (
        "thread/start",
        &[
            "allowProviderModelFallback",
            "daybreakEnabled",
            "dynamicTools",
            "environments",
            "experimentalRawEvents",
            "historyMode",
            "mockExperimentalField",
            "multiAgentMode",
            "permissions",
            "projectId",
            "runtimeWorkspaceRoots",
            "selectedCapabilityRoots",
        ],
    ),
    ("thread/resume", &["history", "initialTurnsPage", "path", "permissions", "runtimeWorkspaceRoots"]),
    (
        "thread/fork",
        &[
            "attachToSource",
            "beforeTurnId",
            "deferGoalContinuation",
            "experimentalDisablePredictionMcp",
            "experimentalPredictionMode",
            "path",
            "permissions",
            "runtimeWorkspaceRoots",
        ],
    ),
    (
        "thread/list",
        &["ancestorThreadId", "attachedToThreadId", "includeAttachedThreads", "parentThreadId", "projectId"],
    ),
    ("thread/metadata/update", &["daybreakEnabled", "projectId"]),
    (
        "turn/start",
        &[
            "additionalContext",
            "collaborationMode",
            "cyberAccessProgram",
            "environments",
            "multiAgentMode",
            "permissions",
            "responsesapiClientMetadata",
            "responsesapiClientMetadataPatch",
            "runtimeWorkspaceRoots",
        ],
    ),
    ("turn/steer", &["additionalContext", "responsesapiClientMetadata", "responsesapiClientMetadataPatch"]),
];

/// The text with which a request is refused to a connection without the capability; `None` lets it pass.
pub fn gate(method: &str, params: Option<&Value>) -> Option<String> {
    let refuse = |what: String| Some(format!("{what} requires experimentalApi capability"));
    if is_experimental(method) {
        return refuse(method.to_owned());
    }
    let params = params?.as_object()?;
    let fields =
        EXPERIMENTAL_FIELDS.iter().find(|(name, _)| *name == method).map_or(&[][..], |(_, fields)| fields);
    for field in fields {
        if let Some(value) = params.get(*field)
            && is_used(method, field, value)
        {
            return refuse(format!("{method}.{field}"));
        }
    }
    let granular = params.get("approvalPolicy").is_some_and(|policy| policy.get("granular").is_some());
    if granular { refuse("askForApproval.granular".to_owned()) } else { None }
}

/// Whether a method needs the capability as a whole.
pub fn is_experimental(method: &str) -> bool {
    EXPERIMENTAL_METHODS.contains(&method)
}

/// Whether [`gate`] can refuse this method at all, so that most requests need no second look at their params.
pub fn may_be_gated(method: &str) -> bool {
    is_experimental(method) || EXPERIMENTAL_FIELDS.iter().any(|(name, _)| *name == method)
}

/// The gate looks at values: null, false and an empty path ask for nothing, except where null has a meaning.
fn is_used(method: &str, field: &str, value: &Value) -> bool {
    match value {
        Value::Null => (method, field) == ("thread/list", "projectId"),
        Value::Bool(on) => *on,
        Value::String(text) => !(field == "path" && text.is_empty()),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(method: &str, params: Value, expected: Option<&str>) {
        let expected = expected.map(|what| format!("{what} requires experimentalApi capability"));
        assert_eq!(gate(method, Some(&params)), expected, "{method} {params}");
    }

    #[test]
    fn experimental_methods_and_members_are_named() {
        check("thread/queue/list", json!({"threadId": "x"}), Some("thread/queue/list"));
        check("thread/start", json!({"historyMode": "paginated"}), Some("thread/start.historyMode"));
        check("thread/start", json!({"approvalPolicy": {"granular": {}}}), Some("askForApproval.granular"));
    }

    #[test]
    fn unused_members_pass() {
        check("thread/start", json!({"historyMode": null, "experimentalRawEvents": false}), None);
        check("thread/resume", json!({"threadId": "x", "path": ""}), None);
        check("thread/list", json!({"projectId": null}), Some("thread/list.projectId"));
        check("thread/read", json!({"threadId": "x"}), None);
    }
}
