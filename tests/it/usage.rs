//! What was used: over the wire (`usage/report`), and printed (`threadkeep usage`).

use serde_json::{Value, json};

use crate::support::client::Server;
use crate::support::home::Home;
use crate::support::id;
use crate::support::model::say;

/// Rows of a report as (group, tokens).
fn rows(server: &mut Server, params: &Value, group: &str) -> Vec<(String, i64)> {
    let report = server.request("usage/report", params);
    let data = report["data"].as_array().unwrap();
    let sum: i64 = data.iter().map(|row| row["totalTokens"].as_i64().unwrap()).sum();
    assert_eq!(report["total"]["totalTokens"], sum);
    let of =
        |row: &Value| (row[group].as_str().unwrap_or("-").to_owned(), row["totalTokens"].as_i64().unwrap());
    data.iter().map(of).collect()
}

fn run_turn(home: &Home, server: &mut Server, thread: &str, total: i64) {
    home.model.script([say("Done").usage(total - 1, 0, 1, 0, total)]);
    server.run_turn(thread, "hello");
}

fn printed(home: &Home, arguments: &[&str]) -> String {
    let output = home.command(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Two threads, two models, and the second thread is the first one's sub-agent in a project.
fn used_home() -> (Home, String, String) {
    let home = Home::new();
    let mut server = home.server();
    let one = id(&server.start_thread());
    run_turn(&home, &mut server, &one, 10);
    server.request("thread/settings/update", &json!({"threadId": one, "model": "second-model"}));
    run_turn(&home, &mut server, &one, 20);
    let other = id(&server.start_thread());
    run_turn(&home, &mut server, &other, 40);
    server.close();
    home.change(
        "update threads set parent_thread_id = (select thread_id from threads where thread_key = 1),
                            project_id = 'garden'
         where thread_key = 2;
         -- Half past eleven at night, and two hours later, in UTC.
         update token_usage set at_ms = 1785540600000 where total < 30;
         update token_usage set at_ms = 1785547800000 where total > 30;",
    );
    (home, one, other)
}

#[test]
fn a_report_sums_up_by_each_group() {
    let (home, one, other) = used_home();
    let mut server = home.server();
    let mut check = |group: &str, member: &str, expected: &[(&str, i64)]| {
        let found = rows(&mut server, &json!({"groupBy": [group]}), member);
        let expected: Vec<(String, i64)> =
            expected.iter().map(|(name, tokens)| ((*name).to_owned(), *tokens)).collect();
        assert_eq!(found, expected, "{group}");
    };
    check("day", "day", &[("2026-07-31", 30), ("2026-08-01", 40)]);
    check("thread", "threadId", &[(&one, 30), (&other, 40)]);
    check("thread", "threadTitle", &[("hello", 30), ("hello", 40)]);
    check("project", "projectId", &[("-", 30), ("garden", 40)]);
    check("model", "model", &[("mock-model", 50), ("second-model", 20)]);
    check("provider", "modelProvider", &[("mock_provider", 70)]);
    check("goal", "goalId", &[("-", 70)]);
    let all = server.request("usage/report", &json!({}));
    assert_eq!(all["timeZone"], "UTC");
    assert_eq!((&all["total"]["responses"], &all["total"]["outputTokens"]), (&json!(3), &json!(3)));
    let both = rows(&mut server, &json!({"groupBy": ["model", "day"]}), "model");
    assert_eq!(both.len(), 3);
}

#[test]
fn days_begin_where_the_time_zone_says() {
    let (home, ..) = used_home();
    let mut server = home.server();
    let mut days = |zone: &str| rows(&mut server, &json!({"groupBy": ["day"], "timeZone": zone}), "day");
    assert_eq!(days("Europe/Berlin"), [("2026-08-01".to_owned(), 70)]);
    assert_eq!(days("America/New_York"), [("2026-07-31".to_owned(), 70)]);
    assert_eq!(days("Asia/Kathmandu"), [("2026-08-01".to_owned(), 70)]);
    let mut total = |params: Value| server.request("usage/report", &params)["total"]["totalTokens"].clone();
    assert_eq!(total(json!({"until": "2026-07-31"})), 30);
    assert_eq!(total(json!({"since": "2026-08-01", "until": "2026-08-01"})), 40);
    assert_eq!(total(json!({"since": "2026-08-01", "timeZone": "Europe/Berlin"})), 70);
}

#[test]
fn sub_agents_count_for_their_root_if_that_is_asked_for() {
    let (home, one, other) = used_home();
    let mut server = home.server();
    let rolled_up =
        rows(&mut server, &json!({"groupBy": ["thread"], "includeDescendants": true}), "threadId");
    assert_eq!(rolled_up, [(one.clone(), 70)]);
    let mut total = |params: Value| server.request("usage/report", &params)["total"]["totalTokens"].clone();
    assert_eq!(total(json!({"threadId": one})), 30);
    assert_eq!(total(json!({"threadId": one, "includeDescendants": true})), 70);
    assert_eq!(total(json!({"threadId": other, "includeDescendants": true})), 40);
    assert_eq!(total(json!({"model": "second-model"})), 20);
    assert_eq!(total(json!({"projectId": "garden"})), 40);
    assert_eq!(total(json!({"modelProvider": "nobody"})), 0);
    assert_eq!(total(json!({"goalId": "none"})), 0);
}

#[test]
fn forks_and_restarts_count_no_token_twice() {
    let home = Home::new();
    let mut server = home.server();
    let thread = id(&server.start_thread());
    run_turn(&home, &mut server, &thread, 10);
    let fork = id(&server.request("thread/fork", &json!({"threadId": thread}))["thread"]);
    run_turn(&home, &mut server, &fork, 5);
    server.close();
    let mut server = home.server();
    let of = rows(&mut server, &json!({"groupBy": ["thread"]}), "threadId");
    assert_eq!(of, [(thread, 10), (fork, 5)]);
}

#[test]
fn what_cannot_be_reported_is_said() {
    let home = Home::new();
    let mut server = home.server();
    for (params, part) in [
        (json!({"timeZone": "Europe/Atlantis"}), "unknown time zone `Europe/Atlantis`"),
        (json!({"since": "yesterday"}), "invalid since `yesterday`"),
        (json!({"groupBy": ["colour"]}), "unknown variant `colour`"),
        (json!({"threadId": "x"}), "invalid thread id"),
        (json!({"thread": "x"}), "unknown field `thread`"),
    ] {
        server.refused("usage/report", &params, part);
    }
}

#[test]
fn usage_is_printed_as_table_chart_csv_and_json() {
    let (home, one, _) = used_home();
    insta::assert_snapshot!("usage_by_day", printed(&home, &["usage", "--time-zone", "UTC"]));
    insta::assert_snapshot!("usage_by_model", printed(&home, &["usage", "--by", "model,provider", "--csv"]));
    insta::assert_snapshot!("usage_chart", printed(&home, &["usage", "--chart", "--time-zone", "UTC"]));
    let json: Value = serde_json::from_str(&printed(&home, &["usage", "--json", "--by", "thread"])).unwrap();
    assert_eq!((&json["data"][0]["threadId"], &json["total"]["totalTokens"]), (&json!(one), &json!(70)));
    let one_day = printed(&home, &["usage", "--csv", "--since", "2026-08-01", "--time-zone", "UTC"]);
    assert_eq!(one_day.lines().count(), 2, "{one_day}");
    let by_thread = printed(&home, &["usage", "--by", "thread", "--descendants"]);
    assert!(by_thread.contains(&format!("{one} hello")), "{by_thread}");
}
