//! The subcommands, and what their exit codes say.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

use crate::args::{self, Args, Command, Load};
use crate::process::{Signals, reserve_descriptors};
use crate::progress::Log;
use crate::report::Output;
use crate::result::{Assertion, Document, Verdict};
use crate::run::{drive, meaningless_assertions, measure};
use crate::scenario::{NotMeasured, Prepared, prepare};
use crate::{selftest, workers};

/// The scenario could not run at all.
const COULD_NOT_RUN: u8 = 1;
/// Bad usage. clap exits with the same.
const BAD_USAGE: u8 = 2;
/// A fault was missed, or the honest server was not found to be so.
const SELFTEST_FAILED: u8 = 1;
const ASSERTION_FAILED: u8 = 99;

/// Does what the command line says.
pub fn main() -> ExitCode {
    let args = Args::parse();
    let is_worker =
        matches!(&args.command, Command::Run(scenario) if scenario.load().server.workers.worker.is_some());
    let log = if is_worker { Log::to_parent(workers::send_log) } else { Log::default() };
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
    if let Some(worker) = load.server.workers.worker {
        return run_worker(scenario, &worker.share(&load), log);
    }
    let mut faults = scenario.unsupported();
    faults.extend(check_processes(scenario, &load).err());
    faults.extend(meaningless_assertions(scenario));
    if !faults.is_empty() {
        faults.iter().for_each(|fault| log.line(fault));
        return Ok(BAD_USAGE);
    }
    if load.server.output.quiet || load.server.output.json_lines {
        log.hide_bars();
    }
    reserve_descriptors(scenario.sockets().div_ceil(load.server.workers.processes))?;
    let output = Output::open(&load.server.output)?;
    let document = match start_runtime()?.block_on(measure(scenario, log)) {
        Ok(document) => document,
        Err(why) => return not_measured(why, log),
    };
    let verdicts: Vec<_> = load
        .server
        .output
        .assertions
        .iter()
        .map(|assertion| (assertion, assertion.judge(&document)))
        .collect();
    let document =
        document.with_assertions(verdicts.iter().map(|(it, verdict)| it.to_result(verdict)).collect());
    output.write(&document).map_err(|error| format!("cannot write the result: {error}"))?;
    Ok(exit_code(&document, &verdicts, log))
}

fn check_processes(scenario: &args::Scenario, load: &Load) -> Result<(), String> {
    let (processes, connections) = (load.server.workers.processes, load.connections);
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

/// Runs one worker's share of a load.
fn run_worker(scenario: &args::Scenario, load: &Load, log: &Log) -> Result<u8, String> {
    reserve_descriptors(load.connections)?;
    let Prepared { scenario, .. } = prepare(scenario);
    match start_runtime()?.block_on(drive(scenario, load, log)) {
        Ok(measured) => workers::send_result(measured),
        Err(why) => return not_measured(why, log),
    }
    Ok(0)
}

fn not_measured(why: NotMeasured, log: &Log) -> Result<u8, String> {
    match why {
        NotMeasured::Refused(why) => {
            log.line(&why);
            Ok(BAD_USAGE)
        }
        NotMeasured::Failed(why) => Err(why),
    }
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

/// The exit code of a result. Logs what is wrong.
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
