//! `loadgen` loads a session server and breaks its sessions on purpose.
//!
//! One thread, one task a connection. [`scenario`] says what is done, [`target`] what a server can do, [`client`] how one
//! connection speaks, over [`websocket`] or an [`event_stream`]; [`heard`] what it understands of channels, [`admin`] how to publish without one,
//! [`report`] what is told in the end, and [`assertion`] whether that was good enough.

mod admin;
mod args;
mod assertion;
mod client;
mod counts;
mod event_stream;
mod failure;
mod footprint;
mod heard;
mod histogram;
mod http_head;
mod own;
mod progress;
mod report;
mod scenario;
mod scratch;
mod source;
mod target;
mod websocket;

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use clap::Parser;
use tokio::runtime::{Builder, LocalOptions};
use tokio::signal::ctrl_c;
use tokio::time::{Instant, timeout};

use crate::args::{Args, Load};
use crate::assertion::{Assertion, Verdict};
use crate::client::Dialer;
use crate::failure::Failures;
use crate::footprint::Footprint;
use crate::own::Lag;
use crate::progress::Log;
use crate::report::{Group, seconds};
use crate::scenario::{Prepared, Scenario, Setup, prepare};
use crate::source::Sources;

/// What a connection needs while it opens is freed between what others keep for long. This allocator has pages for each size,
/// so it does not leave holes; and it aligns tokio's tasks and sockets to cache lines without padding. (Without huge pages: they
/// would make memory resident before it is used.)
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The scenario could not run at all.
const COULD_NOT_RUN: u8 = 1;
/// Bad usage. clap exits with the same.
const BAD_USAGE: u8 = 2;
const ASSERTION_FAILED: u8 = 99;

fn main() -> ExitCode {
    let args = Args::parse();
    let log = Log::default();
    match run(&args.scenario, &log) {
        Ok(code) => code,
        Err(message) => {
            log.line(&message);
            ExitCode::from(COULD_NOT_RUN)
        }
    }
}

fn run(scenario: &args::Scenario, log: &Log) -> Result<ExitCode, String> {
    if let Err(message) = scenario.check() {
        log.line(&message);
        return Ok(ExitCode::from(BAD_USAGE));
    }
    own::reserve_descriptors(scenario.sockets())?;
    let Prepared { name, load, header, scenario } = prepare(scenario);
    let header = Group::default()
        .with("scenario", name)
        .with("target", load.server.url.as_str())
        .with("dialect", load.server.target.name())
        .and(header);
    let output = Output::open(load.server.json.as_deref())?;
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    let report = runtime.block_on(drive(scenario, header, &load, log))?;
    output.write(&report).map_err(|error| format!("cannot write the report: {error}"))?;
    Ok(ExitCode::from(exit_code(&report, &load.server.assertions, log)))
}

/// Runs a scenario until it is over or Ctrl-C, and reports in either case.
async fn drive(scenario: Rc<dyn Scenario>, header: Group, load: &Load, log: &Log) -> Result<Group, String> {
    let cannot_resolve = |why: String| format!("cannot resolve {}: {why}", load.server.url.as_str());
    let address = timeout(load.server.connect_timeout, load.server.url.resolve())
        .await
        .map_err(|_| cannot_resolve("it takes too long".to_owned()))?
        .map_err(|error| cannot_resolve(error.to_string()))?;
    let server = &load.server;
    let dialer = Rc::new(Dialer {
        url: server.url.clone(),
        target: server.target,
        sources: Sources::new(address),
        timeout: server.connect_timeout,
        pong_timeout: server.pong_timeout,
        reconnect_window: server.reconnect_window,
    });
    let setup = Rc::new(Setup {
        load: load.clone(),
        dialer,
        failures: Failures::new(log.clone()),
        footprint: Rc::new(Footprint::before()),
    });
    let lag = Lag::default();
    let start = Instant::now();
    let interrupted = tokio::select! {
        () = scenario.clone().run(setup.clone()) => false,
        _ = ctrl_c() => true,
        never = progress::draw(log.clone(), || scenario.bars(&setup)) => match never {},
        never = lag.watch() => match never {},
    };
    Ok(header
        .with("interrupted", interrupted)
        .with("elapsed_seconds", seconds(start.elapsed()))
        .and(scenario.outcome(&setup))
        .with("error_kinds", setup.failures.by_kind())
        .with(
            "loadgen",
            lag.and_usage().with("bytes_per_connection", setup.footprint.bytes_per_connection()),
        ))
}

/// What the exit code says about a report. What is wrong is told on the way.
fn exit_code(report: &Group, assertions: &[Assertion], log: &Log) -> u8 {
    if report.number("connected") == Ok(0.0) && report.number("errors") != Ok(0.0) {
        log.line("not one connection could be opened");
        return COULD_NOT_RUN;
    }
    if report.number("subscribed") == Ok(0.0) && report.number("errors") != Ok(0.0) {
        log.line("not one connection could subscribe");
        return COULD_NOT_RUN;
    }
    let mut code = 0;
    for assertion in assertions {
        match assertion.judge(report) {
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

/// Where the report goes. A file is opened before the run, so that a bad path costs no run.
enum Output {
    Table,
    JsonToStdout,
    JsonToFile(File),
}

impl Output {
    fn open(json: Option<&Path>) -> Result<Self, String> {
        match json {
            None => Ok(Self::Table),
            Some(path) if path == Path::new("-") => Ok(Self::JsonToStdout),
            Some(path) => File::create(path)
                .map(Self::JsonToFile)
                .map_err(|error| format!("cannot write {}: {error}", path.display())),
        }
    }

    fn write(self, report: &Group) -> io::Result<()> {
        match self {
            Self::Table => writeln!(io::stdout(), "{}", report.to_table()),
            Self::JsonToStdout => writeln!(io::stdout(), "{}", report.to_json()),
            Self::JsonToFile(mut file) => {
                writeln!(file, "{}", report.to_json())?;
                writeln!(io::stdout(), "{}", report.to_table())
            }
        }
    }
}
