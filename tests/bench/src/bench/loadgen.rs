//! Tests of two guarantees, which only loadgen can make.

use std::time::Duration;

use serde_json::Value;

use crate::BenchFailure;
use crate::args::Plan;
use crate::placement::CpuPlacement;
use crate::process::{BenchBinaries, MeasuredServer, ServerKind};

/// Runs clients that stop answering pings: none may be dropped early. Measures how late each is detected.
pub(crate) async fn mute(
    plan: &Plan,
    binaries: &BenchBinaries,
    placement: &CpuPlacement,
) -> Result<Value, BenchFailure> {
    let (interval, timeout) = (Duration::from_secs(1), Duration::from_millis(500));
    let server = MeasuredServer::encke(interval, timeout, &plan.set, binaries, placement).await?;
    let count = plan.mute_connections.to_string();
    let load = ["--connections", &count, "--rate", "1000", "--duration", "20s"];
    run("mute", &load, server, binaries).await
}

/// Drops all connections simultaneously, after which all clients reconnect immediately.
pub(crate) async fn storm(
    plan: &Plan,
    binaries: &BenchBinaries,
    placement: &CpuPlacement,
) -> Result<Value, BenchFailure> {
    let server =
        MeasuredServer::encke(plan.interval, plan.interval / 2, &plan.set, binaries, placement).await?;
    let (count, rate) = (plan.storm_connections.to_string(), plan.rate.to_string());
    let load = ["--connections", &count, "--rate", &rate, "--duration", "2s"];
    run("storm", &load, server, binaries).await
}

/// Runs the storm against either configuration of Encke, with `limits.max_handshakes` raised so that all
/// clients can reconnect simultaneously.
pub(crate) async fn storm_without_handshake_limit(
    kind: ServerKind,
    plan: &Plan,
    binaries: &BenchBinaries,
    placement: &CpuPlacement,
) -> Result<Value, BenchFailure> {
    let mut plan = plan.clone();
    plan.set = plan.settings(kind);
    plan.set.push(format!("limits.max_handshakes={}", plan.storm_connections * 6 / 5));
    storm(&plan, binaries, placement).await
}

/// Runs a scenario against a fresh server, and returns loadgen's report.
async fn run(
    scenario: &str,
    load: &[&str],
    server: MeasuredServer,
    binaries: &BenchBinaries,
) -> Result<Value, BenchFailure> {
    let mut command = binaries.command("loadgen");
    command.arg(scenario).arg(format!("ws://{}/ws", server.clients)).args(load).args(["--json", "-"]);
    let output = command.spawn()?.wait_with_output().await?;
    server.stop().await?;
    if !output.status.success() {
        return Err(format!("loadgen {scenario} failed: {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
