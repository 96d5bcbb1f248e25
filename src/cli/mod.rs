//! The command line: one file a command.

pub mod exit;

mod app_server;
mod exec;
mod export;
mod import;
mod schema;
mod show;
mod threads;
mod usage;
mod verify;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use self::exit::Exit;
use crate::clock::Clock;
use crate::config::{ConfigSource, Home};
use crate::store::{self, OpenOptions, Store};

/// A durable SQLite store of agent conversations with a JSON-RPC front.
#[derive(Debug, Parser)]
#[command(name = "threadkeep", version, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes, before its name or after it. (Arguments that clap calls global would do for single
/// values, but of lists they lose what stands before the name.)
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// The folder of the database, the configuration and the rollouts [default: $THREADKEEP_HOME, $CODEX_HOME or ~/.codex]
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Override a value of config.toml: a dotted path and a TOML value or plain text
    #[arg(short = 'c', long = "config", value_name = "KEY=VALUE", action = clap::ArgAction::Append)]
    config: Vec<String>,
    /// Switch a feature on
    #[arg(long, value_name = "FEATURE")]
    enable: Vec<String>,
    /// Switch a feature off
    #[arg(long, value_name = "FEATURE")]
    disable: Vec<String>,
}

/// A command with the options of all.
#[derive(Debug, Args)]
struct With<T: Args> {
    #[command(flatten)]
    command: T,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve clients over stdio, WebSocket, a unix socket or HTTP
    AppServer(With<app_server::AppServer>),
    /// Run one turn and print what the model says
    Exec(With<exec::Exec>),
    /// List the threads that are stored
    Threads(With<threads::Threads>),
    /// Print a thread with its turns
    Show(With<show::Show>),
    /// Print what was used, by day, thread, project, model, provider or goal
    Usage(With<usage::Usage>),
    /// Take rollout files into the database
    Import(With<import::Import>),
    /// Write threads out as rollout files
    Export(With<export::Export>),
    /// Compare the database with the rollout files
    Verify(With<verify::Verify>),
    /// Write the JSON Schema of what the server offers
    Schema(With<schema::Schema>),
}

/// Run the command line.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A broken pipe is success; nothing else can go wrong with printing help.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Good.into() };
        }
    };
    log();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return exit::fail(&anyhow::Error::from(error)),
    };
    let common = cli.common;
    let outcome = runtime.block_on(async {
        match cli.command {
            Command::AppServer(with) => app_server::run(&common.and(with.common), with.command).await,
            Command::Exec(with) => exec::run(&common.and(with.common), with.command).await,
            Command::Threads(with) => threads::run(&common.and(with.common), with.command).await,
            Command::Show(with) => show::run(&common.and(with.common), with.command).await,
            Command::Usage(with) => usage::run(&common.and(with.common), with.command).await,
            Command::Import(with) => import::run(&common.and(with.common), with.command).await,
            Command::Export(with) => export::run(&common.and(with.common), with.command).await,
            Command::Verify(with) => verify::run(&common.and(with.common), with.command).await,
            Command::Schema(with) => schema::run(with.command).await,
        }
    });
    // A reader of standard input may still wait; the process does not.
    runtime.shutdown_background();
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => exit::fail(&error),
    }
}

/// Logs go to stderr: `RUST_LOG` says which, `LOG_FORMAT=json` how.
fn log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let logs = logs.with_ansi(std::io::stderr().is_terminal());
    if std::env::var("LOG_FORMAT").is_ok_and(|format| format == "json") {
        logs.json().init();
    } else {
        logs.init();
    }
}

impl Common {
    /// Those before the command's name with those after it.
    fn and(mut self, later: Common) -> Common {
        self.home = later.home.or(self.home);
        self.config.extend(later.config);
        self.enable.extend(later.enable);
        self.disable.extend(later.disable);
        self
    }

    /// The configuration that the flags select.
    ///
    /// # Errors
    /// No home, or a flag that cannot be used.
    pub fn config(&self) -> anyhow::Result<ConfigSource> {
        let home = Home::find(self.home.as_deref())?;
        let mut flags = self.config.clone();
        flags.extend(self.enable.iter().map(|feature| format!("features.{feature}=true")));
        flags.extend(self.disable.iter().map(|feature| format!("features.{feature}=false")));
        Ok(ConfigSource::new(home, &flags)?)
    }

    /// The open database of a configuration.
    ///
    /// # Errors
    /// It cannot be opened; the text says what to do.
    pub async fn store(config: &ConfigSource, clock: &Clock) -> anyhow::Result<Store> {
        let options =
            OpenOptions { bytes_max: config.load().config.database_max_bytes, ..OpenOptions::default() };
        Ok(Store::open_with(&Common::store_path(config), clock.clone(), &options).await?)
    }

    /// Where the database of a configuration is.
    fn store_path(config: &ConfigSource) -> PathBuf {
        let named = config.load().config.sqlite_home;
        let environment = std::env::var_os("CODEX_SQLITE_HOME").map(PathBuf::from);
        let folder = named.or(environment).unwrap_or_else(|| config.home().path().to_owned());
        folder.join(store::FILE_NAME)
    }
}
