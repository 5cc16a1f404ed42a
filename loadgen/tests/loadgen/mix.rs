//! Tests of `mix`, which runs a plan of phases.

use encke_loadgen::behaviour::{Behaviour, HONEST};
use serde_json::json;

use crate::run::{Ended, PATIENT, number, server};

async fn mix(behaviour: Behaviour, plan: &str, options: &str) -> Ended {
    let server = server(move |_| behaviour).await;
    crate::run::mix(&format!("{} {options}", server.url()), plan).await
}

const PLAN: &str = r#"
    [[phase]]
    kind = "ramp"
    duration = "200ms"
    run = [{ scenario = "hold", name = "crowd", connections = 10 }]

    [[phase]]
    kind = "soak"
    duration = "4s"
      [[phase.run]]
      scenario = "storm"
      connections = 5
      rate = 1000
      duration = "100ms"
      [[phase.run]]
      scenario = "churn"
      rate = 20
      duration = "300ms"

    [[phase]]
    name = "the end"
    kind = "spike"
    duration = "300ms"
    run = [{ scenario = "hold", connections = 20 }]
"#;

#[tokio::test(flavor = "multi_thread")]
async fn phases_follow_each_other_and_soak_repeats_runs() {
    let options = "--assert errors==0 --assert plan.ramp.runs.crowd.connected==10 --assert resume_ms.count>0";
    let ended = mix(PATIENT, PLAN, options).await;
    ended.assert_code(0);
    let json = ended.json();
    let phases = json["plan"].as_object().expect("phases are an object");
    assert_eq!(phases.keys().collect::<Vec<_>>(), ["ramp", "soak", "the_end"]);
    let soak = &json["plan"]["soak"]["runs"];
    let [storms, churns] = ["storm", "churn"].map(|name| number(soak, &format!("/{name}/times")));
    assert!(storms >= 2.0 && churns >= 2.0, "{json:#}");
    for name in ["dropped", "resumed"] {
        assert_eq!(number(soak, &format!("/storm/{name}")), storms * 5.0, "{name} in {json:#}");
    }
    let connected = 30.0 + storms * 5.0 + number(soak, "/churn/connected");
    assert_eq!(number(&json, "/connected"), connected, "the total is the sum: {json:#}");
    assert_eq!(number(&json, "/connect_ms/count"), connected, "times of all runs are merged");
    assert_eq!(json["plan"]["the_end"]["runs"]["hold"]["connected"], 20);
    assert!(number(&json, "/plan/soak/duration_seconds") >= 4.0, "{json:#}");
    let names = json["phases"].as_array().expect("it is a list").iter().map(|phase| &phase["name"]);
    assert_eq!(names.collect::<Vec<_>>(), ["ramp", "soak", "the end"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_count_in_their_run_and_in_the_total() {
    let json = mix(Behaviour { remembers_sessions: false, ..HONEST }, PLAN, "").await.json();
    let storm = &json["plan"]["soak"]["runs"]["storm"];
    assert!(number(storm, "/errors") > 0.0, "{json:#}");
    assert_eq!(storm["errors"], storm["dropped"]);
    assert_eq!(json["plan"]["ramp"]["runs"]["crowd"]["errors"], 0);
    assert_eq!(json["errors"], storm["errors"]);
    assert_eq!(json["error_kinds"], json!({"not_recovered": storm["errors"]}));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_plan_is_bad_usage() {
    for (plan, options, code, why) in [
        (
            PLAN.replace("rate = 20", "rat = 20"),
            "",
            2,
            "phase \"soak\": run \"churn\": unexpected key '--rat'",
        ),
        (
            PLAN.to_owned(),
            "--assert plan.ramp.runs.crowd.resumed==1",
            2,
            "resumed==1 (the result has no such path",
        ),
        (
            PLAN.to_owned(),
            "--target plain",
            2,
            "phase \"soak\", run \"storm\": storm needs resuming sessions, which --target plain does not support",
        ),
        (PLAN.to_owned(), "--assert plan.soak.runs.tempest.resumed==1", 2, "no such path"),
        (PLAN.replace("connections = 20", "connections = 4000000"), "", 1, "connections do not fit"),
    ] {
        mix(PATIENT, &plan, options).await.assert_failed(code, why);
    }
}
