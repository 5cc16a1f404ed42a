//! Tests of parsing plans, and of the errors for invalid plans.

use super::*;

const GOOD: &str = r#"
    [[phase]]
    kind = "ramp"
    duration = "2m"
    run = [{ scenario = "hold", name = "crowd", connections = 6000 }]

    [[phase]]
    name = "all at once"
    kind = "soak"
    duration = "10m"
      [[phase.run]]
      scenario = "storm"
      connections = 500
      rate = 1000
      duration = "5s"
      [[phase.run]]
      scenario = "fanout"
      connections = 100
      publish_rate = 10
      cut-after = "5s"

    [[phase]]
    kind = "spike"
    duration = "10s"
    run = [{ scenario = "mute", connections = 100 }]
"#;

fn parse(text: &str) -> Result<Plan, String> {
    text.parse()
}

#[test]
fn a_plan_is_parsed_with_defaults() {
    let plan = parse(GOOD).expect("the plan is valid");
    let names: Vec<_> = plan.phases.iter().map(|phase| (phase.name.as_str(), phase.kind)).collect();
    assert_eq!(
        names,
        [("ramp", PhaseKind::Ramp), ("all at once", PhaseKind::Soak), ("spike", PhaseKind::Spike)]
    );
    let loads: Vec<_> = plan
        .phases
        .iter()
        .flat_map(|phase| &phase.runs)
        .map(|run| (run.name.as_str(), run.scenario.load()))
        .map(|(name, load)| (name, load.connections, load.rate, load.duration.as_secs()))
        .collect();
    assert_eq!(
        loads,
        [
            ("crowd", 6000, 50.0, 120),
            ("storm", 500, 1000.0, 5),
            ("fanout", 100, 1000.0, 0),
            ("mute", 100, 1e6, 10)
        ]
    );
}

#[test]
fn errors_name_the_problem() {
    let storm = "scenario = 'storm', connections = 5, rate = 10, duration = '1s'";
    let run = |run: &str| format!("phase = [{{ kind = 'hold', duration = '1s', run = [{{ {run} }}] }}]");
    let with = |more: &str| run(&format!("{storm}, {more}"));
    for (text, wrong) in [
        ("", "missing field `phase`"),
        ("phase = []", "no phase"),
        ("phases = 1", "unknown field `phases`"),
        ("phase = [{ kind = 'hop', duration = '1s' }]", "hop"),
        ("phase = [{ kind = 'hold', duration = 'long' }]", "\"long\""),
        ("phase = [{ kind = 'hold', duration = '0s' }]", "zero"),
        ("phase = [{ kind = 'hold', duration = '1s', runs = [] }]", "unknown field `runs`"),
        ("phase = [{ kind = 'hold', duration = '1s' }, { kind = 'hold', duration = '1s' }]", "two phases"),
        (&run("connections = 5"), "without a scenario"),
        (&run("scenario = 'dance'"), "dance"),
        (&run("scenario = 'mix'"), "cannot contain a mix"),
        (&run("scenario = 'abuse'"), "one attacker"),
        (&run("scenario = 'restart'"), "restart the server"),
        (&with("connectoins = 5"), "run \"storm\": unexpected key '--connectoins'"),
        (&with("json = 'x'"), "json belongs to the mix"),
        (&with("share = true"), "share must be a string or a number"),
        (&with("connect-timeout = '1s'"), "connect_timeout belongs"),
        (&with("pid = 1"), "pid belongs"),
        (&with("abort_on_fail = 1"), "abort_on_fail belongs"),
        ("phase = [{ kind = 'ramp', duration = '1s', run = [{ scenario = 'mute' }] }]", "only hold"),
        (
            "phase = [{ kind = 'ramp', duration = '1s', run = [{ scenario = 'hold', rate = 1 }] }]",
            "follow from the phase",
        ),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.contains(wrong), "{text}: {error}");
    }
}
