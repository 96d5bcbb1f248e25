//! Servers that really run: a small one in Python, over both transports.

use crate::config::mcp_server::ServerConfig;
use std::{path::Path, process::Stdio, sync::Arc, time::Duration};

use futures_util::FutureExt;
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    sync::mpsc,
};

use super::server::{CallResult, Elicit, Elicitation, ElicitationAnswer, McpError, Progress, Server};

const SERVER: &str = include_str!("test_server.py");

fn config(extra: &str) -> ServerConfig {
    let mut config: ServerConfig = toml::from_str(extra).unwrap();
    config.command = Some("python3".into());
    config.args = vec!["-c".into(), SERVER.into()];
    config
}

fn accepting() -> Elicit {
    Arc::new(|elicitation: Elicitation| {
        assert_eq!(
            (elicitation.server.as_str(), &elicitation.request["message"]),
            ("s", &json!("Your name?"))
        );
        let answer = ElicitationAnswer { action: "accept".into(), content: Some(json!({"name": "Ann"})) };
        async move { answer }.boxed()
    })
}

async fn start(extra: &str) -> Result<Server, McpError> {
    Server::start("s", &config(extra), Path::new("/tmp"), accepting()).await
}

fn text(result: &CallResult) -> &str {
    result.content[0]["text"].as_str().unwrap()
}

fn arguments(value: Value) -> Option<Map<String, Value>> {
    value.as_object().cloned()
}

#[tokio::test]
async fn tools_are_listed_and_called() {
    let server = start("disabled_tools = [\"hidden\"]").await.unwrap();
    let names: Vec<(&str, bool)> =
        server.tools().iter().map(|tool| (tool.name.as_str(), tool.read_only)).collect();
    assert_eq!(names, [("echo", true), ("ask", false), ("slow", false), ("fail", false)]);
    let result = server.call("echo", arguments(json!({"word": "nut"})), None).await.unwrap();
    assert_eq!((text(&result), result.is_error), ("nut", false));
    assert!(server.call("fail", None, None).await.unwrap_err().to_string().contains("out of nuts"));
    server.shutdown().await;
}

#[tokio::test]
async fn a_server_may_ask_and_tell_its_progress() {
    let server = start("").await.unwrap();
    let (sender, mut news) = mpsc::channel(8);
    let result = server.call("ask", None, Some(sender)).await.unwrap();
    assert_eq!(text(&result), r#"{"action": "accept", "content": {"name": "Ann"}}"#);
    assert_eq!(
        news.recv().await,
        Some(Progress { progress: 1.0, total: Some(2.0), message: Some("half".into()) })
    );
    server.shutdown().await;
}

#[tokio::test]
async fn resources_are_listed_and_read() {
    let server = start("").await.unwrap();
    assert_eq!(server.resources().await.unwrap()[0]["uri"], "mem://a");
    assert_eq!(server.read_resource("mem://a").await.unwrap()["contents"][0]["text"], "content of mem://a");
    server.shutdown().await;
}

#[tokio::test]
async fn what_takes_too_long_is_ended() {
    let server = start("tool_timeout_sec = 0.3").await.unwrap();
    let error = server.call("slow", None, None).await.unwrap_err();
    assert_eq!(error.to_string(), "tool slow of the MCP server s timed out after 0.3 seconds");
    // The server is still there for others.
    assert!(server.call("echo", arguments(json!({"word": "x"})), None).await.is_ok());
    server.shutdown().await;
    let silent = ServerConfig {
        command: Some("sleep".into()),
        args: vec!["60".into()],
        startup_timeout_sec: Some(0.2),
        ..ServerConfig::default()
    };
    let error = Server::start("s", &silent, Path::new("/tmp"), accepting()).await.err().unwrap();
    assert_eq!(error.to_string(), "starting the MCP server s timed out after 0.2 seconds");
}

#[tokio::test]
async fn what_cannot_start_is_said() {
    let start = async |config: ServerConfig| {
        Server::start("req", &config, Path::new("/tmp"), accepting()).await.err().unwrap().to_string()
    };
    let missing = ServerConfig { command: Some("/no/such".into()), ..ServerConfig::default() };
    assert_eq!(start(missing).await, "No such file or directory (os error 2)");
    assert_eq!(start(ServerConfig::default()).await, "invalid transport\nin `mcp_servers.req`");
}

#[tokio::test]
async fn the_process_ends_with_the_connection() {
    for stubborn in ["", "env = { STUBBORN = \"1\" }"] {
        let server = start(stubborn).await.unwrap();
        let result = server.call("echo", arguments(json!({"word": "pid"})), None).await.unwrap();
        let process = format!("/proc/{}", text(&result));
        assert!(Path::new(&process).exists());
        server.shutdown().await;
        assert!(!Path::new(&process).exists(), "{stubborn}");
    }
}

#[tokio::test]
async fn a_server_can_be_reached_by_http() {
    let mut child = tokio::process::Command::new("python3")
        .args(["-c", SERVER, "http"])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut port = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).await.unwrap();
    let config = ServerConfig {
        url: Some(format!("http://127.0.0.1:{}/mcp", port.trim())),
        http_headers: [("x-pass".to_owned(), "nut".to_owned())].into(),
        enabled_tools: Some(vec!["echo".into()]),
        ..ServerConfig::default()
    };
    let server = Server::start("s", &config, Path::new("/tmp"), accepting()).await.unwrap();
    assert_eq!(server.tools().len(), 1);
    let result = server.call("echo", arguments(json!({"word": "by http"})), None).await.unwrap();
    assert_eq!(text(&result), "by http");
    tokio::time::timeout(Duration::from_secs(10), server.shutdown()).await.unwrap();
}
