//! Whether a command or a patch runs at once, is asked about, or is refused.
//!
//! One pure function for each, over the policy, the sandbox mode and what the call asks for, so that the table in the
//! tests is the whole truth.

use super::{command::rules::Decision, exec::answer::rejected};

/// When the user is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Before everything.
    Untrusted,
    /// When a call asks for more than the sandbox gives.
    OnRequest,
    /// Never; what would need it is refused.
    Never,
    /// As on request or as never, by kind.
    Granular {
        /// Escalations and patches beyond the sandbox.
        sandbox_approval: bool,
        /// Commands that a rule says to ask about.
        rules: bool,
    },
}

/// What the sandbox gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Reading.
    ReadOnly,
    /// Writing in some folders.
    WorkspaceWrite,
    /// Everything: there is none.
    FullAccess,
}

/// What is done with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It runs at once.
    Run {
        /// In the sandbox of the mode.
        confined: bool,
    },
    /// It runs after a yes.
    Ask {
        /// In the sandbox of the mode, also after the yes.
        confined: bool,
    },
    /// It does not run; this is told to the model.
    Refuse(String),
}

/// What is known of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommandTraits<'a> {
    /// It asks to run without the sandbox.
    pub escalated: bool,
    /// Why it is dangerous ([`super::command::danger::reason`]).
    pub danger: Option<&'a str>,
    /// What the rules say of it ([`super::command::rules::Rules::decide`]).
    pub rule: Option<Decision>,
}

/// The verdict on a command; `shown` is its text for people.
pub fn command(policy: Policy, mode: Mode, command: CommandTraits, shown: &str) -> Verdict {
    let confined = mode != Mode::FullAccess && !command.escalated;
    match command.rule {
        Some(Decision::Allow) => return Verdict::Run { confined },
        Some(Decision::Forbidden) => {
            return Verdict::Refuse(rejected(&format!("`{shown}` rejected: a rule forbids it")));
        }
        Some(Decision::Prompt) if !asks_for_rules(policy) => {
            return Verdict::Refuse(rejected(&format!(
                "`{shown}` rejected: a rule asks for approval, which the approval policy rules out"
            )));
        }
        Some(Decision::Prompt) => return Verdict::Ask { confined },
        None => {}
    }
    if policy == Policy::Untrusted {
        return Verdict::Ask { confined };
    }
    let asks = asks(policy);
    if let Some(reason) = command.danger {
        let refusal = || rejected(&super::command::danger::refusal(shown, reason));
        return if asks { Verdict::Ask { confined } } else { Verdict::Refuse(refusal()) };
    }
    if command.escalated && !asks {
        let name = if policy == Policy::Never { "Never" } else { "Granular" };
        return Verdict::Refuse(format!(
            "approval policy is {name}; reject command — you cannot ask for escalated permissions if the approval policy is {name}"
        ));
    }
    match command.escalated && mode != Mode::FullAccess {
        true => Verdict::Ask { confined },
        false => Verdict::Run { confined },
    }
}

/// The verdict on a patch; `in_roots` when every file it touches may be written in the sandbox.
pub fn patch(policy: Policy, mode: Mode, in_roots: bool) -> Verdict {
    let confined = false;
    if policy == Policy::Untrusted {
        return Verdict::Ask { confined };
    }
    let allowed = match mode {
        Mode::FullAccess => true,
        Mode::WorkspaceWrite => in_roots,
        Mode::ReadOnly => false,
    };
    match (allowed, asks(policy), mode) {
        (true, ..) => Verdict::Run { confined },
        (false, true, _) => Verdict::Ask { confined },
        (false, false, Mode::ReadOnly) => Verdict::Refuse(
            "patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings"
                .into(),
        ),
        (false, false, _) => Verdict::Refuse(
            "patch rejected: writing outside of the project; rejected by user approval settings".into(),
        ),
    }
}

fn asks(policy: Policy) -> bool {
    match policy {
        Policy::Untrusted | Policy::OnRequest => true,
        Policy::Never => false,
        Policy::Granular { sandbox_approval, .. } => sandbox_approval,
    }
}

fn asks_for_rules(policy: Policy) -> bool {
    match policy {
        Policy::Granular { rules, .. } => rules,
        other => asks(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODES: [Mode; 3] = [Mode::ReadOnly, Mode::WorkspaceWrite, Mode::FullAccess];

    fn letter(verdict: &Verdict) -> char {
        match verdict {
            Verdict::Run { confined: true } => 's',
            Verdict::Run { confined: false } => 'r',
            Verdict::Ask { confined: true } => 'a',
            Verdict::Ask { confined: false } => 'A',
            Verdict::Refuse(_) => 'x',
        }
    }

    /// One letter a mode: `s` runs in the sandbox, `r` runs free, `a` and `A` ask for the same, `x` refused.
    fn check(policy: Policy, traits: CommandTraits, expected: &str) {
        let found: String = MODES.iter().map(|mode| letter(&command(policy, *mode, traits, "c"))).collect();
        assert_eq!(found, expected, "{policy:?} {traits:?}");
    }

    #[test]
    fn commands_are_judged_as_in_the_table() {
        let plain = CommandTraits::default();
        let escalated = CommandTraits { escalated: true, ..plain };
        let dangerous = CommandTraits { danger: Some("no"), ..plain };
        let granular = |sandbox_approval| Policy::Granular { sandbox_approval, rules: false };
        check(Policy::Untrusted, plain, "aaA");
        check(Policy::Untrusted, escalated, "AAA");
        for policy in [Policy::OnRequest, granular(true)] {
            check(policy, plain, "ssr");
            check(policy, escalated, "AAr");
            check(policy, dangerous, "aaA");
        }
        for policy in [Policy::Never, granular(false)] {
            check(policy, plain, "ssr");
            check(policy, escalated, "xxx");
            check(policy, dangerous, "xxx");
        }
        let ruled = |rule, escalated| CommandTraits { rule: Some(rule), escalated, danger: None };
        check(Policy::Untrusted, ruled(Decision::Allow, false), "ssr");
        check(Policy::Untrusted, ruled(Decision::Allow, true), "rrr");
        check(Policy::OnRequest, ruled(Decision::Forbidden, false), "xxx");
        check(Policy::OnRequest, ruled(Decision::Prompt, false), "aaA");
        check(Policy::Never, ruled(Decision::Prompt, false), "xxx");
    }

    #[test]
    fn patches_are_judged_as_in_the_table() {
        let check = |policy, in_roots, expected: &str| {
            let found: String = MODES.iter().map(|mode| letter(&patch(policy, *mode, in_roots))).collect();
            assert_eq!(found, expected, "{policy:?} {in_roots}");
        };
        check(Policy::Untrusted, true, "AAA");
        check(Policy::OnRequest, true, "Arr");
        check(Policy::OnRequest, false, "AAr");
        check(Policy::Never, true, "xrr");
        check(Policy::Never, false, "xxr");
    }

    #[test]
    fn refusals_are_told_in_known_words() {
        let Verdict::Refuse(text) = command(
            Policy::Never,
            Mode::ReadOnly,
            CommandTraits { escalated: true, ..Default::default() },
            "c",
        ) else {
            panic!("refused")
        };
        assert_eq!(
            text,
            "approval policy is Never; reject command — you cannot ask for escalated permissions if the approval policy is Never"
        );
    }
}
