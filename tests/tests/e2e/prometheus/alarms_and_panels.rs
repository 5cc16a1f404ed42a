use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use encke_tests::Prometheus;
use encke_tests::waiting::until;
use serde_json::Value;

use super::{Everything, deploy};

const TESTS_OF_ALARMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/alerts/alerts_test.yml");

fn promtool(arguments: &[&str], file: &Path) {
    let ran = Command::new("promtool").args(arguments).arg(file).output().expect("promtool is installed");
    assert!(
        ran.status.success(),
        "{}{}",
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr)
    );
}

/// The names of all alarms.
fn alarms() -> Vec<String> {
    let text = fs::read_to_string(deploy("alerts.yml")).expect("the alarms");
    let name = |line: &str| line.trim().strip_prefix("- alert: ").map(str::to_owned);
    text.lines().filter_map(name).collect()
}

#[test]
fn alarms_come_when_they_should_and_only_then() {
    promtool(&["check", "rules"], &deploy("alerts.yml"));
    promtool(&["test", "rules"], Path::new(TESTS_OF_ALARMS));
    let tests = fs::read_to_string(TESTS_OF_ALARMS).expect("the tests");
    let alarms = alarms();
    assert!(alarms.len() > 20, "{alarms:?}");
    for alarm in alarms {
        assert!(tests.contains(&format!("{{alertname=\"{alarm}\"}}")), "no test has {alarm} come");
    }
}

fn dashboard() -> Value {
    let text = fs::read_to_string(deploy("grafana.json")).expect("the dashboard");
    serde_json::from_str(&text).expect("it is JSON")
}

fn panels(dashboard: &Value) -> &Vec<Value> {
    dashboard["panels"].as_array().expect("panels")
}

/// Each expression of the dashboard, for the whole of the job, and over ten seconds.
fn expressions(dashboard: &Value) -> Vec<String> {
    let targets = panels(dashboard).iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let filled = |target: &Value| {
        let expression = target["expr"].as_str().expect("an expression");
        let filled =
            expression.replace("$__rate_interval", "10s").replace("$job", ".*").replace("$instance", ".*");
        assert!(!filled.contains('$'), "{filled}: a variable that the dashboard does not have");
        filled
    };
    targets.map(filled).collect()
}

#[test]
fn panels_do_not_lie_over_each_other() {
    let dashboard = dashboard();
    let mut ids = BTreeSet::new();
    let mut places = BTreeSet::new();
    for panel in panels(&dashboard) {
        let number = |field: &str| panel["gridPos"][field].as_u64().expect("a number");
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{panel}");
        assert!(number("x") + number("w") <= 24, "{panel}");
        for x in number("x")..number("x") + number("w") {
            for y in number("y")..number("y") + number("h") {
                assert!(places.insert((x, y)), "{panel}");
            }
        }
        if panel["type"] != "row" {
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
        }
    }
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    let names: Vec<_> = variables.iter().map(|variable| variable["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["datasource", "job", "instance"]);
}

/// What an expression asks for: names of metrics, with the labels that are asked for.
fn selectors(expression: &str) -> Vec<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut selectors = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(is_name) {
        let name_end = rest[start..].find(|c| !is_name(c)).map_or(rest.len(), |end| start + end);
        let (name, after) = (&rest[start..name_end], &rest[name_end..]);
        // What stands in quotes has no metric in it.
        let labels =
            if after.starts_with('{') { after.find('}').map_or("", |end| &after[..=end]) } else { "" };
        if ["encke_", "process_"].iter().any(|prefix| name.starts_with(prefix)) || name == "up" {
            selectors.push(format!("{name}{labels}"));
        }
        rest = &after[labels.len()..];
    }
    selectors
}

#[test]
fn selectors_are_found() {
    let expression = r#"sum by (job, le) (rate(encke_a_bucket{x="encke_b",y=~"1|2"}[5m])) > 0.1 * encke_c and up{job="encke"} == 0"#;
    let expected = [r#"encke_a_bucket{x="encke_b",y=~"1|2"}"#, "encke_c", r#"up{job="encke"}"#];
    assert_eq!(selectors(expression), expected);
}

#[test]
fn prometheus_reads_the_server_and_knows_all_that_alarms_and_panels_ask_for() {
    let everything = Everything::start();
    let prometheus = Prometheus::scraping(everything.server.admin.address(), &deploy("alerts.yml"));
    let target = || prometheus.get("/api/v1/targets")["activeTargets"][0].clone();
    until("the server was scraped", || matches!(target()["health"].as_str(), Some("up" | "down")));
    assert_eq!((target()["health"].as_str(), target()["lastError"].as_str()), (Some("up"), Some("")));
    until("it is up", || prometheus.query("up{job=\"encke\"} == 1").len() == 1);

    let rules = || prometheus.get("/api/v1/rules")["groups"][0]["rules"].as_array().expect("rules").clone();
    until("each alarm was looked at", || {
        let rules = rules();
        !rules.is_empty() && rules.iter().all(|rule| rule["health"] != "unknown")
    });
    let rules = rules();
    assert_eq!(rules.len(), alarms().len());
    for rule in &rules {
        assert_eq!(
            (rule["health"].as_str(), rule["state"].as_str()),
            (Some("ok"), Some("inactive")),
            "{rule}"
        );
    }

    let of_rules = rules.iter().map(|rule| rule["query"].as_str().expect("a query").to_owned());
    let mut asked_for = BTreeSet::new();
    for expression in of_rules.chain(expressions(&dashboard())) {
        let series = prometheus.query(&expression);
        assert!(series.len() < 200, "{expression}: {}", series.len());
        let selectors = selectors(&expression);
        assert!(!selectors.is_empty(), "{expression}");
        asked_for.extend(selectors);
    }
    for selector in &asked_for {
        assert!(!prometheus.query(selector).is_empty(), "there is no {selector}");
    }
    assert!(asked_for.len() > 60, "{}", asked_for.len());
}
