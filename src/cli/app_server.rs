//! `threadkeep app-server`: serve clients.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, CommandFactory, error::ErrorKind};

use super::exit::Exit;
use super::{Cli, Common};
use crate::clock::Clock;
use crate::config::ConfigSource;
use crate::protocol::approval::AskForApproval;
use crate::runtime::Runtime;
use crate::server::auth::{Auth, AuthFlags};
use crate::server::{Server, http, stdio, unix, websocket};
use crate::tools::exec::left;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  threadkeep app-server\n  threadkeep app-server --listen ws://127.0.0.1:0\n  \
                        threadkeep app-server --listen unix:///run/user/1000/threadkeep.sock\n  \
                        threadkeep app-server --listen ws://0.0.0.0:7000 --ws-auth capability-token --ws-token-file token"
)]
pub(super) struct AppServer {
    /// Where to listen: stdio://, ws://IP:PORT, unix://PATH, unix://, http://IP:PORT or off [default: stdio://]
    #[arg(long, value_name = "URL", conflicts_with = "stdio")]
    listen: Option<String>,
    /// The same as --listen stdio://
    #[arg(long)]
    stdio: bool,
    /// Refuse to start when config.toml has keys that are not known
    #[arg(long)]
    strict_config: bool,
    /// What a client must show to a ws:// or http:// listener
    #[arg(long, value_name = "KIND", value_parser = ["capability-token", "signed-bearer-token"])]
    ws_auth: Option<String>,
    /// File that holds the capability token
    #[arg(long, value_name = "FILE")]
    ws_token_file: Option<PathBuf>,
    /// SHA-256 of the capability token, in hex
    #[arg(long, value_name = "HEX")]
    ws_token_sha256: Option<String>,
    /// File that holds the secret which signs bearer tokens (HS256)
    #[arg(long, value_name = "FILE")]
    ws_shared_secret_file: Option<PathBuf>,
    /// The issuer that signed tokens must name
    #[arg(long, value_name = "TEXT")]
    ws_issuer: Option<String>,
    /// The audience that signed tokens must name
    #[arg(long, value_name = "TEXT")]
    ws_audience: Option<String>,
    /// Seconds by which clocks may differ [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(i64).range(0..))]
    ws_max_clock_skew_seconds: Option<i64>,
}

/// Where to listen.
enum Listen {
    Stdio,
    WebSocket(SocketAddr),
    Unix(Option<PathBuf>),
    Http(SocketAddr),
}

impl Listen {
    /// What carries the messages, in one word.
    fn name(&self) -> &'static str {
        match self {
            Listen::Stdio => "stdio",
            Listen::WebSocket(_) => "websocket",
            Listen::Unix(_) => "unix",
            Listen::Http(_) => "http",
        }
    }
}

pub(super) async fn run(common: &Common, command: AppServer) -> anyhow::Result<Exit> {
    let listen = command.listen.as_deref().unwrap_or("stdio://");
    anyhow::ensure!(listen != "off", "no transport configured; use --listen or enable remote control");
    let listen = match parse_listen(listen) {
        Ok(listen) => listen,
        Err(message) => Cli::command().error(ErrorKind::ValueValidation, message).exit(),
    };
    let auth = Auth::from_flags(&AuthFlags {
        ws_auth: command.ws_auth,
        ws_token_file: command.ws_token_file,
        ws_token_sha256: command.ws_token_sha256,
        ws_shared_secret_file: command.ws_shared_secret_file,
        ws_issuer: command.ws_issuer,
        ws_audience: command.ws_audience,
        ws_max_clock_skew_seconds: command.ws_max_clock_skew_seconds,
    })
    .map_err(anyhow::Error::msg)?;
    let config = common.config()?;
    if command.strict_config {
        check_strictly(&config)?;
    }
    anyhow::ensure!(
        config.load().config.approval_policy != AskForApproval::Untrusted,
        "approval_policy = \"untrusted\" is no longer supported; remove this setting"
    );
    let clock = Clock::system();
    let store = Common::store(&config, &clock).await?;
    let home = config.home().path().to_owned();
    // Beside the start, which must not wait for it; nobody waits for the outcome.
    tokio::task::spawn_blocking(left::kill_orphans);
    let runtime = Runtime::start(clock, store, config);
    runtime.account.set_transport(listen.name());
    let server = Server::new(runtime)?;
    match listen {
        Listen::Stdio => stdio::serve(server).await?,
        Listen::WebSocket(address) => websocket::serve(server, address, auth).await?,
        Listen::Unix(path) => unix::serve(server, &path.unwrap_or_else(|| unix::default_path(&home))).await?,
        Listen::Http(address) => http::serve(server, address, auth).await?,
    }
    Ok(Exit::Good)
}

fn check_strictly(config: &ConfigSource) -> anyhow::Result<()> {
    let problems: Vec<String> =
        config.load().warnings.into_iter().filter_map(|warning| warning.details).collect();
    anyhow::ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

fn parse_listen(url: &str) -> Result<Listen, String> {
    match url.split_once("://") {
        Some(("stdio", "")) => Ok(Listen::Stdio),
        Some(("unix", "")) => Ok(Listen::Unix(None)),
        Some(("unix", path)) => Ok(Listen::Unix(Some(path.into()))),
        Some(("ws", address)) => address
            .parse()
            .map(Listen::WebSocket)
            .map_err(|_| format!("invalid websocket --listen URL `{url}`; expected `ws://IP:PORT`")),
        Some(("http", address)) => address
            .parse()
            .map(Listen::Http)
            .map_err(|_| format!("invalid http --listen URL `{url}`; expected `http://IP:PORT`")),
        _ => Err(format!(
            "unsupported --listen URL `{url}`; expected `stdio://`, `unix://`, `unix://PATH`, \
             `ws://IP:PORT`, `http://IP:PORT`, or `off`"
        )),
    }
}
