//! What loadgen finds: the two promises that the crowd here cannot test.

use std::time::Duration;

use serde_json::Value;

use crate::Failure;
use crate::args::Plan;
use crate::placement::Placement;
use crate::process::{Binaries, Kind, Server};

/// Clients that stop answering pings: none may be dropped early, and how late is each noticed?
pub(crate) async fn mute(plan: &Plan, binaries: &Binaries, placement: &Placement) -> Result<Value, Failure> {
    let (interval, timeout) = (Duration::from_secs(1), Duration::from_millis(500));
    let server = Server::encke(interval, timeout, &plan.set, binaries, placement).await?;
    let count = plan.mute_connections.to_string();
    let load = ["--connections", &count, "--rate", "1000", "--duration", "20s"];
    run("mute", &load, server, binaries).await
}

/// All connections are cut at once, and come back at once.
pub(crate) async fn storm(plan: &Plan, binaries: &Binaries, placement: &Placement) -> Result<Value, Failure> {
    let server = Server::encke(plan.interval, plan.interval / 2, &plan.set, binaries, placement).await?;
    let (count, rate) = (plan.storm_connections.to_string(), plan.rate.to_string());
    let load = ["--connections", &count, "--rate", &rate, "--duration", "2s"];
    run("storm", &load, server, binaries).await
}

/// The same, of any encke, where as many may come back at once as there are.
pub(crate) async fn storm_at_once(
    kind: Kind,
    plan: &Plan,
    binaries: &Binaries,
    placement: &Placement,
) -> Result<Value, Failure> {
    let mut plan = plan.clone();
    plan.set = plan.settings(kind);
    plan.set.push(format!("limits.max_handshakes={}", plan.storm_connections * 6 / 5));
    storm(&plan, binaries, placement).await
}

/// Runs a scenario against a fresh server, and gives loadgen's report.
async fn run(scenario: &str, load: &[&str], server: Server, binaries: &Binaries) -> Result<Value, Failure> {
    let mut command = binaries.command("loadgen");
    command.arg(scenario).arg(format!("ws://{}/ws", server.clients)).args(load).args(["--json", "-"]);
    let output = command.spawn()?.wait_with_output().await?;
    server.stop().await?;
    if !output.status.success() {
        return Err(format!("loadgen {scenario} failed: {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
