//! `request_permissions`: the model asks for more than its sandbox gives, for the turn or for as long as the thread is
//! loaded (`protocol/approvals.md`, section 5). What a client grants widens the sandbox of the commands that follow.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::asking::Waiting;
use super::super::turn::TurnContext;
use super::{Call, Output, Stop};
use crate::protocol::approval::{
    AdditionalFileSystemPermissions, AdditionalNetworkPermissions, AskForApproval, GrantedPermissionProfile,
    PermissionGrantScope, PermissionsRequestApprovalParams, PermissionsRequestApprovalResponse,
    RequestPermissionProfile,
};
use crate::tools;

/// The switch that offers the tool.
pub(super) const FEATURE: &str = "request_permissions_tool";

/// What clients have granted.
#[derive(Debug, Default)]
pub(super) struct Grants {
    session: Grant,
    turn: Grant,
    /// The turn that `turn` is of.
    turn_id: String,
}

/// More than a sandbox gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Grant {
    /// Folders and files that may be written.
    pub(super) write: Vec<PathBuf>,
    /// The network may be used.
    pub(super) network: bool,
}

impl Grants {
    /// What holds in this turn.
    pub(super) fn of_turn(&self, turn_id: &str) -> Grant {
        let mut grant = self.session.clone();
        if self.turn_id == turn_id {
            grant.add(self.turn.clone());
        }
        grant
    }

    fn add(&mut self, turn_id: &str, scope: PermissionGrantScope, grant: Grant) {
        match scope {
            PermissionGrantScope::Session => self.session.add(grant),
            PermissionGrantScope::Turn => {
                if self.turn_id != turn_id {
                    self.turn = Grant::default();
                    self.turn_id = turn_id.to_owned();
                }
                self.turn.add(grant);
            }
        }
    }
}

impl Grant {
    fn add(&mut self, other: Grant) {
        self.write.extend(other.write);
        self.network |= other.network;
    }

    fn of(granted: &GrantedPermissionProfile) -> Grant {
        let write = granted.file_system.as_ref().and_then(|files| files.write.as_ref());
        let network = granted.network.as_ref().and_then(|network| network.enabled);
        Grant {
            write: write.into_iter().flatten().map(PathBuf::from).collect(),
            network: network.unwrap_or(false),
        }
    }
}

#[derive(Deserialize)]
struct Arguments {
    #[serde(default)]
    reason: Option<String>,
    permissions: Wanted,
}

#[derive(Deserialize)]
struct Wanted {
    #[serde(default)]
    file_system: Option<Files>,
    #[serde(default)]
    network: Option<AdditionalNetworkPermissions>,
}

#[derive(Deserialize)]
struct Files {
    #[serde(default)]
    read: Option<Vec<String>>,
    #[serde(default)]
    write: Option<Vec<String>>,
}

pub(super) async fn request_permissions(turn: &Arc<TurnContext>, call: &Call<'_>) -> Output {
    let arguments: Arguments = tools::arguments(call.input)?;
    let nothing = GrantedPermissionProfile { file_system: None, network: None };
    if !may_ask(&turn.settings.approval_policy) {
        return Ok(granted(&nothing, PermissionGrantScope::Turn));
    }
    let cwd = Path::new(&turn.settings.cwd);
    let absolute = |paths: Option<Vec<String>>| {
        paths.map(|paths| paths.iter().map(|path| super::path_in(cwd, path).display().to_string()).collect())
    };
    let wanted = arguments.permissions;
    let params = PermissionsRequestApprovalParams {
        cwd: turn.settings.cwd.clone(),
        environment_id: Some("local".to_owned()),
        item_id: call.id.to_owned(),
        permissions: RequestPermissionProfile {
            file_system: wanted.file_system.map(|files| AdditionalFileSystemPermissions {
                entries: None,
                glob_scan_max_depth: None,
                read: absolute(files.read),
                write: absolute(files.write),
            }),
            network: wanted.network,
        },
        reason: arguments.reason,
        started_at_ms: turn.runtime.clock.now_ms(),
        thread_id: turn.notify.thread_id.to_string(),
        turn_id: turn.turn.id.clone(),
    };
    let method = "item/permissions/requestApproval";
    let Some(answer) = turn.asking.ask(method, Waiting::Approval, &params).await else {
        return Err(Stop::Interrupted.into());
    };
    let response = answer
        .ok()
        .and_then(|answer| serde_json::from_value::<PermissionsRequestApprovalResponse>(answer).ok());
    let (permissions, scope) = response
        .map_or((nothing, PermissionGrantScope::Turn), |response| (response.permissions, response.scope));
    turn.tools.allowed().grants.add(&turn.turn.id, scope, Grant::of(&permissions));
    Ok(granted(&permissions, scope))
}

/// Whether the policy lets the clients be asked.
fn may_ask(policy: &AskForApproval) -> bool {
    match policy {
        AskForApproval::Untrusted | AskForApproval::OnRequest => true,
        AskForApproval::Never => false,
        AskForApproval::Granular(granular) => granular.request_permissions,
    }
}

/// What the model is told.
fn granted(permissions: &GrantedPermissionProfile, scope: PermissionGrantScope) -> Value {
    json!(json!({"permissions": permissions, "scope": scope}).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_hold_for_their_turn_or_for_the_session() {
        let write = |path: &str| Grant { write: vec![path.into()], network: false };
        let mut grants = Grants::default();
        grants.add("one", PermissionGrantScope::Turn, write("/a"));
        grants.add("one", PermissionGrantScope::Session, Grant { network: true, ..Grant::default() });
        assert_eq!(grants.of_turn("one"), Grant { write: vec!["/a".into()], network: true });
        assert_eq!(grants.of_turn("two"), Grant { write: vec![], network: true });
        grants.add("two", PermissionGrantScope::Turn, write("/b"));
        assert_eq!(grants.of_turn("two").write, [PathBuf::from("/b")]);
        assert!(grants.of_turn("one").write.is_empty());
    }
}
