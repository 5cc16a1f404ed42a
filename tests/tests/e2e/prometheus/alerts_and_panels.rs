use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use encke_tests::waiting::until;
use encke_tests::{Prometheus, RunningServer};
use serde_json::{Value, json};

use super::deploy;

const ALERT_TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/alerts/alerts_test.yml");

fn promtool(arguments: &[&str], file: &Path) {
    let ran = Command::new("promtool").args(arguments).arg(file).output().expect("promtool is installed");
    assert!(ran.status.success(), "{ran:?}");
}

fn alerts() -> Vec<String> {
    let text = fs::read_to_string(deploy("alerts.yml")).expect("the alerts can be read");
    let name = |line: &str| line.trim().strip_prefix("- alert: ").map(str::to_owned);
    text.lines().filter_map(name).collect()
}

#[test]
fn alerts_fire_exactly_when_they_should() {
    promtool(&["check", "rules"], &deploy("alerts.yml"));
    promtool(&["test", "rules"], Path::new(ALERT_TESTS));
    let tests = fs::read_to_string(ALERT_TESTS).expect("the tests can be read");
    let alerts = alerts();
    assert!(alerts.len() > 20, "{alerts:?}");
    for alert in alerts {
        assert!(tests.contains(&format!("{{alertname=\"{alert}\"}}")), "no test makes {alert} fire");
    }
}

fn dashboard() -> Value {
    let text = fs::read_to_string(deploy("grafana.json")).expect("the dashboard can be read");
    serde_json::from_str(&text).expect("the dashboard is JSON")
}

fn panels(dashboard: &Value) -> &Vec<Value> {
    dashboard["panels"].as_array().expect("panels")
}

/// Returns the expressions of the dashboard, for all jobs and instances, with a rate interval of ten seconds.
fn expressions(dashboard: &Value) -> Vec<String> {
    let targets = panels(dashboard).iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let filled = |target: &Value| {
        let expression = target["expr"].as_str().expect("an expression");
        let filled =
            expression.replace("$__rate_interval", "10s").replace("$job", ".*").replace("$instance", ".*");
        assert!(!filled.contains('$'), "{filled}: unknown dashboard variable");
        filled
    };
    targets.map(filled).collect()
}

#[test]
fn panels_do_not_overlap() {
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

/// Returns the metric names in an expression, with their label matchers.
fn selectors(expression: &str) -> Vec<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut selectors = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(is_name) {
        let name_end = rest[start..].find(|c| !is_name(c)).map_or(rest.len(), |end| start + end);
        let (name, after) = (&rest[start..name_end], &rest[name_end..]);
        // Include the label matchers, so that quoted label values are not mistaken for metrics.
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

/// Asserts that every metric used by alerts and panels exists on this server.
pub(super) fn assert_used_metrics_exist(server: &RunningServer) {
    let prometheus = Prometheus::scraping(server.admin.address(), &deploy("alerts.yml"));
    let target = || prometheus.get("/api/v1/targets")["activeTargets"][0].clone();
    until("the server is scraped", || matches!(target()["health"].as_str(), Some("up" | "down")));
    assert_eq!((target()["health"].as_str(), target()["lastError"].as_str()), (Some("up"), Some("")));
    until("the server is up", || prometheus.query("up{job=\"encke\"} == 1").len() == 1);

    let rules = || prometheus.get("/api/v1/rules")["groups"][0]["rules"].as_array().expect("rules").clone();
    until("every alert is evaluated", || {
        let rules = rules();
        !rules.is_empty() && rules.iter().all(|rule| rule["health"] != "unknown")
    });
    let rules = rules();
    assert_eq!(rules.len(), alerts().len());
    for rule in &rules {
        assert_eq!((&rule["health"], &rule["state"]), (&json!("ok"), &json!("inactive")), "{rule}");
    }

    let of_rules = rules.iter().map(|rule| rule["query"].as_str().expect("a query").to_owned());
    let mut used_selectors = BTreeSet::new();
    for expression in of_rules.chain(expressions(&dashboard())) {
        let series = prometheus.query(&expression);
        assert!(series.len() < 200, "{expression}: {}", series.len());
        let selectors = selectors(&expression);
        assert!(!selectors.is_empty(), "{expression}");
        used_selectors.extend(selectors);
    }
    for selector in &used_selectors {
        assert!(!prometheus.query(selector).is_empty(), "no series matches {selector}");
    }
    assert!(used_selectors.len() > 60, "{}", used_selectors.len());
}
