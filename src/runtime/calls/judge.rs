//! Whether a command or a patch of the model may run, and in which sandbox (`protocol/approvals.md`, section 4).

use std::path::{Path, PathBuf};

use super::super::turn::TurnContext;
use crate::protocol::approval::AskForApproval;
use crate::protocol::settings::SandboxPolicy;
use crate::tools::approval::{Mode, Policy};
use crate::tools::sandbox::{Confinement, WorkspaceWrite};

/// The policy of the turn.
pub(super) fn policy(turn: &TurnContext) -> Policy {
    match &turn.settings.approval_policy {
        AskForApproval::Untrusted => Policy::Untrusted,
        AskForApproval::OnRequest => Policy::OnRequest,
        AskForApproval::Never => Policy::Never,
        AskForApproval::Granular(granular) => {
            Policy::Granular { sandbox_approval: granular.sandbox_approval, rules: granular.rules }
        }
    }
}

/// The sandbox of the turn.
pub(super) fn mode(turn: &TurnContext) -> Mode {
    match &turn.settings.sandbox_policy {
        SandboxPolicy::ReadOnly { .. } => Mode::ReadOnly,
        SandboxPolicy::WorkspaceWrite { .. } => Mode::WorkspaceWrite,
        SandboxPolicy::DangerFullAccess | SandboxPolicy::ExternalSandbox { .. } => Mode::FullAccess,
    }
}

/// The limits of a command that runs in the sandbox of the turn; `None` where there is no sandbox.
pub(super) fn confinement(turn: &TurnContext) -> Option<Confinement> {
    let home = turn.runtime.config.home().path();
    let grants = turn.tools.allowed().grants.of_turn(&turn.turn.id);
    let cwd = Path::new(&turn.settings.cwd);
    let mut confinement = match &turn.settings.sandbox_policy {
        SandboxPolicy::DangerFullAccess | SandboxPolicy::ExternalSandbox { .. } => return None,
        SandboxPolicy::ReadOnly { network_access } => Confinement::read_only(*network_access),
        SandboxPolicy::WorkspaceWrite {
            writable_roots,
            network_access,
            exclude_tmpdir_env_var,
            exclude_slash_tmp,
        } => {
            let own = turn.settings.workspace_roots.iter().map(PathBuf::from);
            let more = writable_roots.iter().map(|root| PathBuf::from(&root.0));
            let settings = WorkspaceWrite {
                writable_roots: own.chain(more).collect(),
                network_access: *network_access,
                exclude_tmpdir_env_var: *exclude_tmpdir_env_var,
                exclude_slash_tmp: *exclude_slash_tmp,
            };
            Confinement::workspace_write(cwd, &settings, home)
        }
    };
    confinement.network |= grants.network;
    confinement.writable_roots.extend(grants.write.iter().filter_map(|root| root.canonicalize().ok()));
    Some(confinement)
}

/// Whether the sandbox of the turn lets all of these files be written.
pub(super) fn may_write<'a>(turn: &TurnContext, mut files: impl Iterator<Item = &'a Path>) -> bool {
    confinement(turn).is_none_or(|confinement| files.all(|file| confinement.may_write(file)))
}
