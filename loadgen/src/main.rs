//! `loadgen` loads a session server and breaks its sessions on purpose.
//!
//! One thread, one task a connection. [`scenario`] says what is done, [`target`] what a server can do, [`client`] how one connection
//! speaks, over a [`websocket`] or an [`event_stream`]; [`heard`] what it understands of channels, [`admin`] how to publish without one.
//! [`record`] samples what is counted meanwhile, [`cost`] what the server takes, [`run`] drives it all, [`parts`] spreads it over
//! processes, [`result`] is what is told in the end, and [`assertion`] whether that was good enough; [`page`] shows it. [`selftest`]
//! runs all of it against a server that is known to be broken.

mod admin;
mod args;
mod assertion;
mod client;
mod compare;
mod cost;
mod event_stream;
mod failure;
mod heard;
mod http_head;
mod output;
mod own;
mod page;
mod parts;
mod progress;
mod record;
mod result;
mod run;
mod scenario;
mod scratch;
mod selftest;
mod source;
mod stop;
mod target;
mod wanted;
mod websocket;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

use crate::args::{Args, Command, Load};
use crate::assertion::{Assertion, Verdict};
use crate::output::Output;
use crate::progress::Log;
use crate::result::{Document, Group};
use crate::run::drive;
use crate::scenario::{Prepared, prepare};
use crate::stop::Signals;

/// What a connection needs while it opens is freed between what others keep for long. This allocator has pages for each size,
/// so it does not leave holes; and it aligns tokio's tasks and sockets to cache lines without padding. (Without huge pages: they
/// would make memory resident before it is used.)
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The scenario could not run at all.
const COULD_NOT_RUN: u8 = 1;
/// Bad usage. clap exits with the same.
const BAD_USAGE: u8 = 2;
/// A fault was missed, or the honest server was not found to be so.
const SELFTEST_FAILED: u8 = 1;
const ASSERTION_FAILED: u8 = 99;

fn main() -> ExitCode {
    let args = Args::parse();
    let is_part =
        matches!(&args.command, Command::Run(scenario) if scenario.load().server.parts.part.is_some());
    let log = if is_part { Log::to_parent() } else { Log::default() };
    let done = match &args.command {
        Command::Run(scenario) => run_scenario(scenario, &log),
        Command::Selftest => run_selftest(),
        Command::Compare(compare) => compare.run().map(|()| 0),
    };
    ExitCode::from(done.unwrap_or_else(|message| {
        log.line(&message);
        COULD_NOT_RUN
    }))
}

fn run_scenario(scenario: &args::Scenario, log: &Log) -> Result<u8, String> {
    let load = scenario.load();
    if let Some(part) = load.server.parts.part {
        return run_part(scenario, &part.share(&load), log);
    }
    let mut faults = scenario.too_much_asked();
    faults.extend(check_processes(scenario, &load).err());
    if !faults.is_empty() {
        faults.iter().for_each(|fault| log.line(fault));
        return Ok(BAD_USAGE);
    }
    if load.server.wanted.quiet || load.server.wanted.json_lines {
        log.hide_bars();
    }
    own::reserve_descriptors(scenario.sockets().div_ceil(load.server.parts.processes))?;
    let output = Output::open(&load.server.wanted)?;
    let document = start_runtime()?.block_on(measure(scenario, log))?;
    let verdicts: Vec<_> = load
        .server
        .wanted
        .assertions
        .iter()
        .map(|assertion| (assertion, assertion.judge(&document)))
        .collect();
    let document = document.judged(verdicts.iter().map(|(it, verdict)| it.told(verdict)).collect());
    output.write(&document).map_err(|error| format!("cannot write the result: {error}"))?;
    Ok(exit_code(&document, &verdicts, log))
}

fn check_processes(scenario: &args::Scenario, load: &Load) -> Result<(), String> {
    let (processes, connections) = (load.server.parts.processes, load.connections);
    if processes > connections {
        return Err(format!("{connections} connections are too few for {processes} processes"));
    }
    match scenario.needs_one_process() {
        Some(why) if processes > 1 => {
            Err(format!("{} does not run with --processes: {why}", scenario.name()))
        }
        _ => Ok(()),
    }
}

/// Runs one part of a load that is spread over processes.
fn run_part(scenario: &args::Scenario, load: &Load, log: &Log) -> Result<u8, String> {
    own::reserve_descriptors(load.connections)?;
    let Prepared { scenario, .. } = prepare(scenario);
    parts::tell_measured(&start_runtime()?.block_on(drive(scenario, load, log))?);
    Ok(0)
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
    let Prepared { name, load, header, scenario } = prepare(scenario);
    let server = &load.server;
    let header = Group::default()
        .with("scenario", name)
        .with("target", server.target.name())
        .with("url", server.url.as_str())
        .and(header);
    let measured = match load.server.parts.processes {
        1 => drive(scenario, &load, log).await?,
        processes => parts::run(processes, &load, log).await?,
    };
    Ok(Document::new(header, measured.run, measured.numbers, &measured.series))
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
