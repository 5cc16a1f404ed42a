//! `loadgen` loads a session server over WebSocket and breaks its sessions on purpose.
//!
//! One thread, one task a connection. [`scenario`] says what is done, [`client`] how one connection speaks,
//! [`heard`] what it understands of channels, [`admin`] how to publish without one. [`record`] samples what is counted
//! meanwhile, [`run`] drives it all, [`result`] is what is told in the end, and [`assertion`] whether that was
//! good enough; [`page`] shows it.

mod admin;
mod args;
mod assertion;
mod client;
mod compare;
mod failure;
mod heard;
mod output;
mod own;
mod page;
mod progress;
mod record;
mod result;
mod run;
mod scenario;
mod source;
mod stop;
mod swallow;
mod target;
mod upgrade;
mod wanted;

use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::{Builder, LocalOptions};

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

/// The scenario could not run at all.
const COULD_NOT_RUN: u8 = 1;
/// Bad usage. clap exits with the same.
const BAD_USAGE: u8 = 2;
const ASSERTION_FAILED: u8 = 99;

fn main() -> ExitCode {
    let args = Args::parse();
    let log = Log::default();
    let done = match &args.command {
        Command::Run(scenario) => run_scenario(scenario, &log),
        Command::Compare(compare) => compare.run().map(|()| 0),
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
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
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
    let document = match scenario {
        args::Scenario::Hold(_) => runtime.block_on(drive(Hold::default(), held(header), &load, log)),
        args::Scenario::Storm(_) => runtime.block_on(drive(Storm::default(), held(header), &load, log)),
        args::Scenario::Mute(mute) => {
            let header = held(header).with("share", mute.share);
            runtime.block_on(drive(Mute::new(mute.share), header, &load, log))
        }
        args::Scenario::Fanout(fanout) => {
            let fanout = Fanout::new(fanout.clone());
            let header = fanout.asked_for(header, &load);
            runtime.block_on(drive(fanout, header, &load, log))
        }
    }?;
    let verdicts: Vec<_> =
        load.wanted.assertions.iter().map(|assertion| (assertion, assertion.judge(&document))).collect();
    let document = document.judged(verdicts.iter().map(|(it, verdict)| it.told(verdict)).collect());
    output.write(&document).map_err(|error| format!("cannot write the result: {error}"))?;
    Ok(exit_code(&document, &verdicts, log))
}

/// What the exit code says about a result. What is wrong is told on the way.
fn exit_code(document: &Document, verdicts: &[(&Assertion, Verdict)], log: &Log) -> u8 {
    if document.number("connected") == Ok(0.0) && document.number("errors") != Ok(0.0) {
        log.line("not one connection could be opened");
        return COULD_NOT_RUN;
    }
    if document.number("subscribed") == Ok(0.0) && document.number("errors") != Ok(0.0) {
        log.line("not one connection could subscribe");
        return COULD_NOT_RUN;
    }
    let mut code = 0;
    for (assertion, verdict) in verdicts {
        match verdict {
            Verdict::Holds(_) => {}
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
