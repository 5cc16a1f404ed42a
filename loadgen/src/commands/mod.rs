//! Subcommands and their exit codes.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

use crate::args::{self, Load, LoadgenArgs, LoadgenCommand};
use crate::process::{Signals, reserve_descriptors};
use crate::progress::ProgressLog;
use crate::report::Output;
use crate::result::{Assertion, Document, Verdict};
use crate::run::{drive, meaningless_assertions, measure};
use crate::scenario::{MeasureError, Prepared, prepare};
use crate::{selftest, workers};

/// Exit code when the scenario could not run at all.
const COULD_NOT_RUN: u8 = 1;
/// Exit code for bad usage. clap uses the same code.
const BAD_USAGE: u8 = 2;
/// Exit code when the self-test missed a fault, or reported a fault of the honest server.
const SELFTEST_FAILED: u8 = 1;
const ASSERTION_FAILED: u8 = 99;

/// Runs the command line.
pub fn main() -> ExitCode {
    let args = LoadgenArgs::parse();
    let is_worker = matches!(&args.command, LoadgenCommand::Run(scenario) if scenario.load().server.workers.worker.is_some());
    let log = if is_worker { ProgressLog::to_parent(workers::send_log) } else { ProgressLog::default() };
    let done = match &args.command {
        LoadgenCommand::Run(scenario) => run_scenario(scenario, &log),
        LoadgenCommand::Selftest => run_selftest(),
        LoadgenCommand::Compare(compare) => compare.run().map(|()| 0),
    };
    ExitCode::from(done.unwrap_or_else(|message| {
        log.line(&message);
        COULD_NOT_RUN
    }))
}

fn run_scenario(scenario: &args::ScenarioOptions, log: &ProgressLog) -> Result<u8, String> {
    let load = scenario.load();
    if let Some(worker) = load.server.workers.worker {
        return run_worker(scenario, &worker.share(&load), log);
    }
    let mut faults = scenario.problems();
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
        Err(why) => return report_failure(why, log),
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

fn check_processes(scenario: &args::ScenarioOptions, load: &Load) -> Result<(), String> {
    let (processes, connections) = (load.server.workers.processes, load.connections);
    if processes > connections {
        return Err(format!("{connections} connections are too few for {processes} processes"));
    }
    match scenario.needs_one_process() {
        Some(why) if processes > 1 => Err(format!("{} does not support --processes: {why}", scenario.name())),
        _ => Ok(()),
    }
}

/// Runs one worker's part of a load.
fn run_worker(scenario: &args::ScenarioOptions, load: &Load, log: &ProgressLog) -> Result<u8, String> {
    reserve_descriptors(load.connections)?;
    let Prepared { scenario, .. } = prepare(scenario);
    match start_runtime()?.block_on(drive(scenario, load, log)) {
        Ok(measured) => workers::send_result(measured),
        Err(why) => return report_failure(why, log),
    }
    Ok(0)
}

fn report_failure(why: MeasureError, log: &ProgressLog) -> Result<u8, String> {
    match why {
        MeasureError::Refused(why) => {
            log.line(&why);
            Ok(BAD_USAGE)
        }
        MeasureError::Failed(why) => Err(why),
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
    runtime.map_err(|error| format!("cannot start the runtime: {error}"))
}

/// Determines the exit code of a result, and logs failed assertions.
fn exit_code(document: &Document, verdicts: &[(&Assertion, Verdict)], log: &ProgressLog) -> u8 {
    if document.number("connected") == Ok(0.0) && document.number("errors") != Ok(0.0) {
        log.line("no connection could be opened");
        return COULD_NOT_RUN;
    }
    if document.number("subscribed") == Ok(0.0) && document.number("errors") != Ok(0.0) {
        log.line("no connection could subscribe");
        return COULD_NOT_RUN;
    }
    let mut code = 0;
    for (assertion, verdict) in verdicts {
        match verdict {
            Verdict::Holds(_) => {}
            Verdict::Fails(number) => {
                log.line(&format!("assertion failed: {assertion} (the value is {number})"));
                code = if code == BAD_USAGE { code } else { ASSERTION_FAILED };
            }
            Verdict::Meaningless(why) => {
                log.line(&format!("invalid assertion: {assertion} ({why})"));
                code = BAD_USAGE;
            }
        }
    }
    code
}
