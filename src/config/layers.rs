//! Reading the layers and merging them.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use thiserror::Error;
use toml::{Table, Value};

use super::Home;
use super::keys::{Config, FOREIGN_KEYS, OWN_KEYS};

/// The system's file.
const SYSTEM_FILE: &str = "/etc/codex/config.toml";

/// A configuration that cannot be used; the text is what follows `failed to load configuration: `.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// Something odd in a file, as clients are told of it (`configWarning`).
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigWarning {
    /// One line.
    pub summary: String,
    /// More.
    pub details: Option<String>,
    /// The file.
    pub path: Option<PathBuf>,
    /// Line and column, from 1, of start and end.
    pub range: Option<[(usize, usize); 2]>,
}

/// A configuration with what was odd about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration; defaults where the user's file is broken.
    pub config: Config,
    /// What was odd.
    pub warnings: Vec<ConfigWarning>,
    /// Why the user's file cannot be used; each start of a thread fails with it.
    pub error: Option<ConfigError>,
}

/// Where configuration comes from.
#[derive(Clone, Debug)]
pub struct ConfigSource {
    home: Home,
    overrides: Vec<(String, Value)>,
}

impl ConfigSource {
    /// The files of a home under `key=value` flags.
    ///
    /// # Errors
    /// A flag that is no `key=value`, or whose value has the wrong type.
    pub fn new(home: Home, flags: &[String]) -> Result<ConfigSource, ConfigError> {
        let overrides = flags.iter().map(|flag| parse_flag(flag)).collect::<Result<Vec<_>, _>>()?;
        let mut table = Table::new();
        for (path, value) in &overrides {
            set(&mut table, path, value.clone());
        }
        for (name, value) in &table {
            let alone = Table::from_iter([(name.clone(), value.clone())]);
            Config::from_table(alone).map_err(|error| ConfigError(error.0.trim_end().replace('\n', " ")))?;
        }
        Ok(ConfigSource { home, overrides })
    }

    /// The home.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// The configuration of the process.
    pub fn load(&self) -> Loaded {
        let mut warnings = Vec::new();
        let mut error = None;
        let path = self.home.config_file();
        let mut table = read_or_empty(Path::new(SYSTEM_FILE));
        match read(&path) {
            Ok(Some((user, text))) => {
                warnings.extend(unknown_keys(&path, &text, &user));
                merge(&mut table, user);
            }
            Ok(None) => {}
            Err(broken) => {
                warnings.push(broken.warning(&path));
                error = Some(broken.error(&path));
            }
        }
        self.apply_flags(&mut table);
        let config = Config::from_table(table).unwrap_or_else(|wrong| {
            warnings.push(ConfigWarning {
                summary: "Invalid configuration; using defaults.".to_owned(),
                details: Some(wrong.to_string()),
                path: Some(path.clone()),
                range: None,
            });
            error = Some(wrong);
            Config::default()
        });
        Loaded { config, warnings, error }
    }

    /// The configuration of a thread: files are read again, project files of a trusted project and the request's
    /// `config` map are added.
    ///
    /// # Errors
    /// A file or value that cannot be used.
    pub fn for_thread(
        &self,
        cwd: &Path,
        request: Option<&serde_json::Map<String, Json>>,
    ) -> Result<Config, ConfigError> {
        let path = self.home.config_file();
        let mut table = read_or_empty(Path::new(SYSTEM_FILE));
        if let Some((user, _)) = read(&path).map_err(|broken| broken.error(&path))? {
            merge(&mut table, user);
        }
        for layer in project_layers(&table, cwd) {
            merge(&mut table, layer);
        }
        self.apply_flags(&mut table);
        for (key, value) in request.into_iter().flatten() {
            if let Some(value) = from_json(value) {
                set(&mut table, key, value);
            }
        }
        Config::from_table(table)
    }

    fn apply_flags(&self, table: &mut Table) {
        for (path, value) in &self.overrides {
            set(table, path, value.clone());
        }
    }
}

/// A file that is no TOML.
struct Broken {
    message: String,
    span: Option<Range<usize>>,
    text: String,
}

impl Broken {
    fn place(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1;
        (line, column)
    }

    fn details(&self, path: &Path) -> String {
        let (line, column) = self.place(self.span.as_ref().map_or(0, |span| span.start));
        format!("{}:{line}:{column}: {}", path.display(), self.message)
    }

    fn warning(&self, path: &Path) -> ConfigWarning {
        ConfigWarning {
            summary: "Invalid configuration; using defaults.".to_owned(),
            details: Some(self.details(path)),
            path: Some(path.to_owned()),
            range: self.span.as_ref().map(|span| [self.place(span.start), self.place(span.end)]),
        }
    }

    fn error(&self, path: &Path) -> ConfigError {
        ConfigError(self.details(path))
    }
}

fn read(path: &Path) -> Result<Option<(Table, String)>, Broken> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Broken { message: error.to_string(), span: None, text: String::new() }),
    };
    match text.parse::<Table>() {
        Ok(table) => Ok(Some((table, text))),
        Err(error) => Err(Broken { message: error.message().to_owned(), span: error.span(), text }),
    }
}

/// A layer that is somebody else's: broken is as good as absent.
fn read_or_empty(path: &Path) -> Table {
    match read(path) {
        Ok(found) => found.map(|(table, _)| table).unwrap_or_default(),
        Err(broken) => {
            tracing::warn!(error = %broken.details(path), "a configuration file is left out");
            Table::new()
        }
    }
}

/// The files of the projects that hold this folder, farthest first, if the project is trusted.
fn project_layers(table: &Table, cwd: &Path) -> Vec<Table> {
    let config = Config::from_table(table.clone()).unwrap_or_default();
    let root = super::instructions::project_root(&config, cwd);
    let trusted = |dir: &Path| {
        config.projects.get(&dir.display().to_string()).and_then(|project| project.trust_level.as_deref())
            == Some("trusted")
    };
    if !trusted(&root) && !trusted(cwd) {
        return Vec::new();
    }
    let mut layers: Vec<Table> = cwd
        .ancestors()
        .take_while(|dir| dir.starts_with(&root))
        .map(|dir| read_or_empty(&dir.join(".codex/config.toml")))
        .collect();
    layers.reverse();
    for layer in &mut layers {
        layer.remove("model_provider");
        layer.remove("model_providers");
    }
    layers
}

fn unknown_keys(path: &Path, text: &str, table: &Table) -> Vec<ConfigWarning> {
    let unknown =
        table.keys().filter(|key| !OWN_KEYS.contains(&key.as_str()) && !FOREIGN_KEYS.contains(&key.as_str()));
    unknown
        .filter(|key| *key != "profile")
        .map(|key| {
            let line = text.lines().position(|line| {
                let line = line.trim_start().trim_start_matches('[').trim_start();
                line.strip_prefix(key.as_str())
                    .is_some_and(|rest| rest.trim_start().starts_with(['=', '.', ']']))
            });
            let place = line.map_or_else(
                || path.display().to_string(),
                |line| format!("{}:{}", path.display(), line + 1),
            );
            let hint = nearest(key).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            ConfigWarning {
                summary: format!("Unknown configuration key `{key}` is ignored."),
                details: Some(format!("{place}: unknown key `{key}`{hint}")),
                path: Some(path.to_owned()),
                range: line.map(|line| [(line + 1, 1), (line + 1, key.len() + 1)]),
            }
        })
        .collect()
}

/// The known key that an unknown one most looks like.
fn nearest(key: &str) -> Option<&'static str> {
    let likeness = |other: &str| similar::TextDiff::from_chars(key, other).ratio();
    let best = OWN_KEYS.iter().chain(FOREIGN_KEYS).max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) > 0.7).then_some(*best)
}

fn parse_flag(flag: &str) -> Result<(String, Value), ConfigError> {
    let Some((key, text)) = flag.split_once('=') else {
        return Err(ConfigError(format!("`{flag}` is no key=value")));
    };
    let parsed = format!("value = {text}").parse::<Table>().ok().and_then(|mut table| table.remove("value"));
    Ok((key.trim().to_owned(), parsed.unwrap_or_else(|| Value::String(text.trim().to_owned()))))
}

/// Set a value at a dotted path.
fn set(table: &mut Table, path: &str, value: Value) {
    match path.split_once('.') {
        None => match (table.get_mut(path), value) {
            (Some(Value::Table(into)), Value::Table(from)) => merge(into, from),
            (_, value) => {
                table.insert(path.to_owned(), value);
            }
        },
        Some((first, rest)) => {
            let inner = table.entry(first.to_owned()).or_insert_with(|| Value::Table(Table::new()));
            if !inner.is_table() {
                *inner = Value::Table(Table::new());
            }
            if let Value::Table(inner) = inner {
                set(inner, rest, value);
            }
        }
    }
}

/// Lay a table over another, key by key.
fn merge(into: &mut Table, from: Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(value)) => merge(inner, value),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

fn from_json(value: &Json) -> Option<Value> {
    Value::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(file: &str, flags: &[&str]) -> (tempfile::TempDir, Result<ConfigSource, ConfigError>) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.toml"), file).unwrap();
        let home = Home::find(Some(dir.path())).unwrap();
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        (dir, ConfigSource::new(home, &flags))
    }

    #[test]
    fn flags_win_over_the_file_and_requests_over_flags() {
        let (_dir, source) =
            source("model = \"a\"\n[features]\ngoals = true\n", &["model=b", "features.apps=false"]);
        let source = source.unwrap();
        let config = source.load().config;
        assert_eq!(
            (config.model.as_deref(), config.feature("goals", false), config.feature("apps", true)),
            (Some("b"), true, false)
        );
        let request = serde_json::json!({"model": "c", "sandbox_workspace_write.network_access": true});
        let config = source.for_thread(Path::new("/"), request.as_object()).unwrap();
        assert_eq!(
            (config.model.as_deref(), config.sandbox_workspace_write.network_access),
            (Some("c"), true)
        );
    }

    #[test]
    fn a_broken_file_is_told_with_its_place() {
        let (dir, source) = source("model = \"a\"\nmodel_provider\n", &[]);
        let loaded = source.unwrap().load();
        let file = dir.path().join("config.toml");
        let details = loaded.warnings[0].details.clone().unwrap();
        assert!(details.starts_with(&format!("{}:2:", file.display())), "{details}");
        assert_eq!(loaded.warnings[0].summary, "Invalid configuration; using defaults.");
        assert_eq!(loaded.error, Some(ConfigError(details)));
    }

    #[test]
    fn unknown_keys_are_named_with_the_nearest_known_one() {
        let (_dir, source) = source("modle = \"a\"\n\n[nobody]\nx = 1\n", &[]);
        let loaded = source.unwrap().load();
        let details: Vec<String> =
            loaded.warnings.iter().filter_map(|warning| warning.details.clone()).collect();
        assert!(
            details[0].ends_with("config.toml:1: unknown key `modle`; did you mean `model`?"),
            "{details:?}"
        );
        assert!(details[1].ends_with("config.toml:3: unknown key `nobody`"), "{details:?}");
        assert!(loaded.error.is_none());
    }

    #[test]
    fn a_wrong_value_names_its_key() {
        let (_dir, source) = source("model_reasoning_effort = 5\n", &[]);
        let error = source.unwrap().for_thread(Path::new("/"), None).unwrap_err();
        assert!(
            error.0.contains("invalid type: integer `5`, expected a string\nin `model_reasoning_effort`"),
            "{error}"
        );
        let (_dir, source) = super::tests::source("", &["approval_policy=bogus"]);
        assert!(source.unwrap_err().0.contains("unknown variant `bogus`"));
    }
}
