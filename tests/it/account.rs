//! What a ChatGPT login brings: usage events, and a managed configuration that must be readable.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::support::home::Home;
use crate::support::id;

const EVENTS: &str = "POST /codex/analytics-events/events";

/// A home with a ChatGPT login of this plan, whose backend is the scripted model's server.
fn home_with_login(plan: &str, more: &str) -> Home {
    let home = Home::new();
    home.configure(more);
    home.set(&format!("chatgpt_base_url = \"{}\"", home.model.base()));
    let encoded = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({"aud": ["app"], "https://api.openai.com/auth": {"chatgpt_plan_type": plan}});
    let token = format!("{}.{}.x", encoded(json!({"alg": "none"})), encoded(claims));
    let login = json!({"auth_mode": "chatgpt", "OPENAI_API_KEY": null, "tokens": {"id_token": token,
        "access_token": "opens", "refresh_token": "renews", "account_id": "account-1"}});
    std::fs::write(home.path().join("auth.json"), login.to_string()).unwrap();
    home
}

#[test]
fn a_loaded_thread_is_told_to_the_backend_without_its_content() {
    let home = home_with_login("plus", "");
    let mut server = home.server();
    let thread = id(&server.start_thread());
    let told = home.model.wait_for_other(EVENTS);
    let event = &told["events"][0];
    assert_eq!(event["event_type"], "codex_thread_initialized");
    let params = &event["event_params"];
    assert_eq!((&params["thread_id"], &params["initialization_mode"]), (&json!(thread), &json!("new")));
    assert_eq!(params["app_server_client"]["rpc_transport"], "stdio");
    assert_eq!(params["app_server_client"]["client_name"], "it");
    server.run_turn(&thread, "a secret word");
    server.close();
    for told in home.model.others(EVENTS) {
        let text = told.to_string();
        assert!(!text.contains("secret") && !text.contains(home.path().to_str().unwrap()), "{text}");
    }
}

#[test]
fn nothing_is_told_without_a_login_or_when_that_is_switched_off() {
    for (more, login) in [("[analytics]\nenabled = false", true), ("", false)] {
        let home = home_with_login("plus", more);
        if !login {
            std::fs::remove_file(home.path().join("auth.json")).unwrap();
        }
        let mut server = home.server();
        let thread = server.used_thread("hello");
        // Events go out in their order: had one been sent, it would stand before this fork's.
        server.request("thread/fork", &json!({"threadId": thread}));
        server.close();
        assert_eq!(home.model.others(EVENTS), Vec::<Value>::new());
    }
}

#[test]
fn a_login_that_a_managed_workspace_refuses_loads_no_thread() {
    let home = home_with_login("business", "");
    home.model.refuse("GET /wham/config/bundle", 401);
    home.model.refuse("POST /oauth/token", 401);
    let mut command = home.command(&["app-server"]);
    command.env("CODEX_REFRESH_TOKEN_URL_OVERRIDE", format!("{}/oauth/token", home.model.base()));
    let mut server = crate::support::client::Server::start(command);
    server.initialize();
    let error = server.error("thread/start", &json!({}));
    assert!(error["message"].as_str().unwrap().starts_with("failed to load configuration"), "{error}");
    assert_eq!((&error["data"]["action"], &error["data"]["statusCode"]), (&json!("relogin"), &json!(401)));
    assert_eq!(home.model.wait_for_other("POST /oauth/token")["refresh_token"], "renews");
    assert_eq!(server.request("thread/list", &json!({}))["data"], json!([]), "the rest is served");
}

#[test]
fn a_managed_workspace_that_cannot_be_asked_keeps_nobody_from_working() {
    let home = home_with_login("business", "");
    home.model.refuse("GET /wham/config/bundle", 503);
    let mut server = home.server();
    server.used_thread("hello");
}
