//! The home: where the database, the configuration and the rollouts are.

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The folder of everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home(PathBuf);

#[derive(Deserialize)]
struct AuthFile {
    #[serde(rename = "OPENAI_API_KEY")]
    api_key: Option<String>,
    tokens: Option<ChatGptLogin>,
}

/// A ChatGPT login, as `auth.json` keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ChatGptLogin {
    /// A JWT that says who the user is.
    #[serde(default)]
    pub id_token: String,
    /// Opens the backend.
    #[serde(default)]
    pub access_token: String,
    /// Brings a new access token.
    #[serde(default)]
    pub refresh_token: String,
    /// The account, if the login names one.
    #[serde(default)]
    pub account_id: Option<String>,
}

impl Home {
    /// The home that a flag or the environment names, else `~/.codex`; made when it is not there.
    ///
    /// # Errors
    /// No home can be told, or it cannot be made.
    pub fn find(flag: Option<&Path>) -> std::io::Result<Home> {
        let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let path = flag
            .map(Path::to_owned)
            .or_else(|| named("THREADKEEP_HOME"))
            .or_else(|| named("CODEX_HOME"))
            .or_else(|| named("HOME").map(|home| home.join(".codex")));
        let Some(path) = path else {
            return Err(std::io::Error::new(
                std::io::ErrorKind::NotFound,
                "no home: give one with --home, or set THREADKEEP_HOME",
            ));
        };
        std::fs::create_dir_all(&path)?;
        Ok(Home(std::path::absolute(path)?))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The user's configuration file.
    pub fn config_file(&self) -> PathBuf {
        self.0.join("config.toml")
    }

    /// The key of `auth.json`, if there is one.
    pub fn api_key(&self) -> Option<String> {
        self.auth_file()?.api_key.filter(|key| !key.is_empty())
    }

    /// The ChatGPT login of `auth.json`, if there is one.
    pub fn chatgpt_login(&self) -> Option<ChatGptLogin> {
        self.auth_file()?.tokens.filter(|login| !login.access_token.is_empty())
    }

    /// Put new tokens in the place of a login's and keep them in `auth.json`: the old ones are used up.
    pub fn renew_login(
        &self,
        login: &ChatGptLogin,
        access_token: String,
        id_token: Option<String>,
        refresh_token: Option<String>,
    ) -> ChatGptLogin {
        let renewed = ChatGptLogin {
            id_token: id_token.unwrap_or_else(|| login.id_token.clone()),
            access_token,
            refresh_token: refresh_token.unwrap_or_else(|| login.refresh_token.clone()),
            account_id: login.account_id.clone(),
        };
        if let Err(error) = self.keep_login(&renewed) {
            tracing::error!(%error, "the renewed login could not be kept in auth.json: log in again");
        }
        renewed
    }

    fn keep_login(&self, login: &ChatGptLogin) -> std::io::Result<()> {
        let path = self.0.join("auth.json");
        let mut file: serde_json::Value = serde_json::from_slice(&std::fs::read(&path)?)?;
        for (name, token) in [
            ("id_token", &login.id_token),
            ("access_token", &login.access_token),
            ("refresh_token", &login.refresh_token),
        ] {
            file["tokens"][name] = serde_json::json!(token);
        }
        // Made beside its place, readable by its owner alone, and then put there whole.
        let mut new = tempfile::NamedTempFile::new_in(&self.0)?;
        serde_json::to_writer_pretty(&mut new, &file)?;
        new.as_file().sync_all()?;
        new.persist(&path)?;
        Ok(())
    }

    fn auth_file(&self) -> Option<AuthFile> {
        let text = std::fs::read_to_string(self.0.join("auth.json")).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// An id of this home, made once.
    pub fn installation_id(&self, new: impl FnOnce() -> String) -> String {
        let path = self.0.join("installation_id");
        match std::fs::read_to_string(&path) {
            Ok(id) if !id.trim().is_empty() => id.trim().to_owned(),
            _ => {
                let id = new();
                if let Err(error) = std::fs::write(&path, &id) {
                    tracing::warn!(%error, path = %path.display(), "the installation id could not be kept");
                }
                id
            }
        }
    }
}
