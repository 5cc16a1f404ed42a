//! `loadgen` loads a session server over WebSocket and breaks its sessions on purpose.
//!
//! One thread, one task a connection. [`scenario`] says what is done, [`client`] how one connection speaks,
//! [`heard`] what it understands of channels, [`admin`] how to publish without one. [`record`] samples what is counted
//! meanwhile, [`cost`] what the server takes, [`run`] drives it all, [`result`] is what is told in the end, and [`assertion`] whether that was
//! good enough. [`selftest`] runs all of it against a server that is known to be broken.

mod admin;
mod args;
mod assertion;
mod client;
mod cost;
mod failure;
mod heard;
mod output;
mod own;
mod progress;
mod record;
mod result;
mod run;
mod scenario;
mod selftest;
mod source;
mod stop;
mod swallow;
mod target;
mod upgrade;
mod wanted;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

use crate::args::{Args, Command};
use crate::assertion::{Assertion, Verdict};
use crate::output::Output;
use crate::progress::Log;
use crate::result::{Document, Group, seconds};
use crate::run::drive;
use crate::scenario::fanout::Fanout;
use crate::scenario::hold::Hold;
use crate::scenario::mute::Mute;
use crate::scenario::storm::Storm;
use crate::stop::Signals;

/// The scenario could not run at all.
const COULD_NOT_RUN: u8 = 1;
/// Bad usage. clap exits with the same.
const BAD_USAGE: u8 = 2;
/// A fault was missed, or the honest server was not found to be so.
const SELFTEST_FAILED: u8 = 1;
const ASSERTION_FAILED: u8 = 99;

fn main() -> ExitCode {
    let args = Args::parse();
    let log = Log::default();
    let done = match &args.command {
        Command::Run(scenario) => run_scenario(scenario, &log),
        Command::Selftest => run_selftest(),
    };
    ExitCode::from(done.unwrap_or_else(|message| {
        log.line(&message);
        COULD_NOT_RUN
    }))
}

fn run_scenario(scenario: &args::Scenario, log: &Log) -> Result<u8, String> {
    let load = scenario.load();
    if load.wanted.quiet || load.wanted.json_lines {
        log.hide_bars();
    }
    own::reserve_descriptors(load.connections)?;
    let output = Output::open(&load.wanted)?;
    let document = start_runtime()?.block_on(measure(scenario, log))?;
    output.write(&document).map_err(|error| format!("cannot write the result: {error}"))?;
    Ok(exit_code(&document, &load.wanted.assertions, log))
}

fn run_selftest() -> Result<u8, String> {
    let outcome = start_runtime()?.block_on(async {
        let mut signals = Signals::listen().map_err(|error| format!("cannot listen for signals: {error}"))?;
        tokio::select! {
            biased;
            () = signals.next() => Err("interrupted".to_owned()),
            outcome = selftest::run() => outcome,
        }
    })?;
    writeln!(io::stdout(), "{}", outcome.to_table())
        .map_err(|error| format!("cannot write the result: {error}"))?;
    Ok(if outcome.is_good() { 0 } else { SELFTEST_FAILED })
}

fn start_runtime() -> Result<LocalRuntime, String> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    runtime.map_err(|error| format!("cannot start: {error}"))
}

/// Runs what the command line asks for, and reports what was asked for and what came of it.
pub(crate) async fn measure(scenario: &args::Scenario, log: &Log) -> Result<Document, String> {
    let load = scenario.load();
    let header = Group::default()
        .with("scenario", scenario.name())
        .with("target", load.url.as_str())
        .with("connections", u64::from(load.connections))
        .with("rate", load.rate);
    let held = |header: Group| {
        header
            .with("duration_seconds", seconds(load.duration))
            .with("connect_timeout_seconds", seconds(load.connect_timeout))
    };
    match scenario {
        args::Scenario::Hold(_) => drive(Hold::default(), held(header), &load, log).await,
        args::Scenario::Storm(_) => drive(Storm::default(), held(header), &load, log).await,
        args::Scenario::Mute(mute) => {
            let header = held(header).with("share", mute.share);
            drive(Mute::new(mute.share), header, &load, log).await
        }
        args::Scenario::Fanout(fanout) => {
            let fanout = Fanout::new(fanout.clone());
            let header = fanout.asked_for(header, &load);
            drive(fanout, header, &load, log).await
        }
    }
}

/// What the exit code says about a result. What is wrong is told on the way.
fn exit_code(document: &Document, assertions: &[Assertion], log: &Log) -> u8 {
    if document.number("connected") == Ok(0.0) && document.number("errors") != Ok(0.0) {
        log.line("not one connection could be opened");
        return COULD_NOT_RUN;
    }
    if document.number("subscribed") == Ok(0.0) && document.number("errors") != Ok(0.0) {
        log.line("not one connection could subscribe");
        return COULD_NOT_RUN;
    }
    let mut code = 0;
    for assertion in assertions {
        match assertion.judge(document) {
            Verdict::Holds => {}
            Verdict::Fails(number) => {
                log.line(&format!("does not hold: {assertion} (it is {number})"));
                code = if code == BAD_USAGE { code } else { ASSERTION_FAILED };
            }
            Verdict::Meaningless(why) => {
                log.line(&format!("means nothing: {assertion} ({why})"));
                code = BAD_USAGE;
            }
        }
    }
    code
}
