//! Subcommands and their exit codes.

use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

use crate::args::{LoadgenArgs, LoadgenCommand, ScenarioOptions};
use crate::process::Signals;
use crate::progress::ProgressLog;
use crate::report::{Output, print};
use crate::result::{Document, Verdict};
use crate::run::{MeasureError, meaningless_assertions, measure, run_part};
use crate::selftest;

/// Exit code when the scenario could not run at all.
const COULD_NOT_RUN: u8 = 1;
/// Exit code for bad usage. clap uses the same code.
const BAD_USAGE: u8 = 2;
/// Exit code when the self-test missed a fault, or reported a fault of the honest server.
const SELFTEST_FAILED: u8 = 1;
const ASSERTION_FAILED: u8 = 99;

pub fn main() -> ExitCode {
    exit_on_panic();
    let args = LoadgenArgs::parse();
    let log = ProgressLog::default();
    let done = match &args.command {
        LoadgenCommand::Run(scenario) => run_scenario(scenario, &log),
        LoadgenCommand::Selftest => run_selftest(),
    };
    ExitCode::from(done.unwrap_or_else(|message| {
        log.line(&message);
        COULD_NOT_RUN
    }))
}

/// Makes a panic in any thread end the process: without the thread's connections, the result would be wrong.
fn exit_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(COULD_NOT_RUN.into());
    }));
}

fn run_scenario(scenario: &ScenarioOptions, log: &ProgressLog) -> Result<u8, String> {
    let load = scenario.load();
    if load.part.is_some() {
        log.hide_bars();
        let done = start_runtime()?.block_on(run_part(scenario, log));
        return done.map_or_else(|why| report_failure(why, log), |()| Ok(0));
    }
    let mut faults = scenario.problems();
    faults.extend(meaningless_assertions(scenario));
    if !faults.is_empty() {
        faults.iter().for_each(|fault| log.line(fault));
        return Ok(BAD_USAGE);
    }
    if load.server.output.quiet {
        log.hide_bars();
    }
    let output = Output::open(&load.server.output)?;
    let mut document = match start_runtime()?.block_on(measure(scenario, log)) {
        Ok(document) => document,
        Err(why) => return report_failure(why, log),
    };
    let assertions = load.server.output.assertions.iter();
    document.assertions = assertions.map(|assertion| assertion.judge(&document)).collect();
    output.write(&document).map_err(|error| format!("cannot write the result: {error}"))?;
    Ok(exit_code(&document, log))
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
        let mut signals = Signals::listen()?;
        tokio::select! {
            biased;
            () = signals.next() => Err("interrupted".to_owned()),
            outcome = selftest::run() => outcome,
        }
    })?;
    print(&format!("{}\n", outcome.to_table()))
        .map_err(|error| format!("cannot write the result: {error}"))?;
    Ok(if outcome.is_good() { 0 } else { SELFTEST_FAILED })
}

fn start_runtime() -> Result<LocalRuntime, String> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    runtime.map_err(|error| format!("cannot start the runtime: {error}"))
}

/// Determines the exit code of a result, and logs failed assertions.
fn exit_code(document: &Document, log: &ProgressLog) -> u8 {
    let number = |name| document.numbers.number(name);
    for (name, done) in [("connected", "be opened"), ("subscribed", "subscribe")] {
        if number(name) == Ok(0.0) && number("errors") != Ok(0.0) {
            log.line(&format!("no connection could {done}"));
            return COULD_NOT_RUN;
        }
    }
    let (mut code, mut is_valid) = (0, true);
    for Verdict { assert, holds, number } in &document.assertions {
        match number {
            Ok(number) if *holds != Some(true) => {
                log.line(&format!("assertion failed: {assert} (the value is {number})"));
                code = ASSERTION_FAILED;
            }
            Ok(_) => {}
            Err(why) => {
                log.line(&format!("invalid assertion: {assert} ({why})"));
                is_valid = false;
            }
        }
    }
    if is_valid { code } else { BAD_USAGE }
}
