//! The environment of a command (`shell_environment_policy`).

use std::collections::BTreeMap;

use crate::config::environment::{EnvironmentPolicy, Inherit};

const CORE: [&str; 14] = [
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TEMP", "TERM", "TMP", "TMPDIR", "TZ",
    "USER", "USERNAME",
];

/// Names that usually hold secrets.
const SECRETS: [&str; 3] = ["*KEY*", "*SECRET*", "*TOKEN*"];

/// Keeps programs from paging and colouring for a reader that is none.
const QUIET: [(&str, &str); 4] =
    [("TERM", "dumb"), ("NO_COLOR", "1"), ("PAGER", "cat"), ("GIT_PAGER", "cat")];

impl EnvironmentPolicy {
    /// The environment of a user's own command.
    pub fn environment(&self) -> BTreeMap<String, String> {
        self.of(std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))))
    }

    /// The environment of the model's command: the same, and quiet.
    pub fn environment_for_model(&self) -> BTreeMap<String, String> {
        let mut environment = self.environment();
        for (name, value) in QUIET {
            if !self.set.contains_key(name) {
                environment.insert(name.to_owned(), value.to_owned());
            }
        }
        environment
    }

    fn of(&self, server: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
        let mut environment: BTreeMap<String, String> = match self.inherit {
            Inherit::All => server.collect(),
            Inherit::Core => server.filter(|(name, _)| CORE.contains(&name.as_str())).collect(),
            Inherit::None => BTreeMap::new(),
        };
        let matches = |name: &str, globs: &[String]| globs.iter().any(|glob| matches(glob, name));
        environment.retain(|name, _| {
            (self.ignore_default_excludes || !SECRETS.iter().any(|glob| self::matches(glob, name)))
                && !matches(name, &self.exclude)
                && (self.include_only.is_empty() || matches(name, &self.include_only))
        });
        environment.extend(self.set.clone());
        environment
    }
}

/// `*` and `?`, in either case of letters.
fn matches(glob: &str, name: &str) -> bool {
    fn inner(glob: &[u8], name: &[u8]) -> bool {
        match (glob.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((b'*', glob_rest)), _) => {
                inner(glob_rest, name) || name.split_first().is_some_and(|(_, rest)| inner(glob, rest))
            }
            (Some((b'?', glob_rest)), Some((_, rest))) => inner(glob_rest, rest),
            (Some((wanted, glob_rest)), Some((found, rest))) => {
                wanted.eq_ignore_ascii_case(found) && inner(glob_rest, rest)
            }
            _ => false,
        }
    }
    inner(glob.as_bytes(), name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policy: &str, expected: &[&str]) {
        let policy: EnvironmentPolicy = toml::from_str(policy).unwrap();
        let server = [("PATH", "/bin"), ("MY_KEY", "k"), ("api_token", "t"), ("OTHER", "o")];
        let server = server.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let names: Vec<String> = policy.of(server.into_iter()).into_keys().collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn the_policy_filters_the_environment() {
        check("", &["MY_KEY", "OTHER", "PATH", "api_token"]);
        check("ignore_default_excludes = false", &["OTHER", "PATH"]);
        check("inherit = \"core\"", &["PATH"]);
        check("inherit = \"none\"\nset = { A = \"1\" }", &["A"]);
        check("exclude = [\"o?her\", \"PATH\"]", &["MY_KEY", "api_token"]);
        check("include_only = [\"*key\"]\nset = { A = \"1\" }", &["A", "MY_KEY"]);
    }
}
