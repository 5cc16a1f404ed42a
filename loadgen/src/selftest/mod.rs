//! `loadgen selftest`: checks that this program reports the faults that it promises to report.
//!
//! [`server`] is a small server with a chosen [`behaviour`]. Scenarios run against it with the same code as any
//! other run, including the command line and the report. [`cases`] defines what each run reports about the honest
//! server, and about each faulty one.

pub mod behaviour;
mod cases;
pub(crate) mod server;

use std::time::Duration;

use clap::Parser;
use comfy_table::{Table, presets};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::time::{Instant, sleep_until};

use self::behaviour::HONEST;
use self::cases::{Fault, RUNS, SelfTestRun};
use self::server::FaultyServer;
use crate::args::{LoadgenArgs, LoadgenCommand};
use crate::progress::ProgressLog;
use crate::result::{Assertion, Document};
use crate::run;

/// Time between the starts of consecutive runs. They share a thread, and connecting is their most expensive
/// part.
const STAGGER: Duration = Duration::from_millis(40);
/// Maximum number of concurrent runs. In an unoptimised build these runs use a quarter of a core. All runs
/// together would use half a core: too much if another program needs it.
const MAX_CONCURRENT_RUNS: usize = 20;

/// A run against the honest server, or against a faulty one.
#[derive(Clone, Copy, Debug)]
struct Trial {
    run: &'static SelfTestRun,
    fault: Option<&'static Fault>,
}

/// All trials, each with its report.
#[derive(Debug)]
pub(crate) struct SelfTestOutcome(Vec<(Trial, Document)>);

/// Runs everything concurrently, since most of the time is spent waiting. Then repeats failed runs one by
/// one, because a busy machine may be too slow for many concurrent runs.
pub(crate) async fn run() -> Result<SelfTestOutcome, String> {
    let mut start = Instant::now();
    let measured = Trial::all().map(|trial| {
        start += STAGGER;
        trial.measure(start)
    });
    let measured = stream::iter(measured).buffered(MAX_CONCURRENT_RUNS).try_collect();
    let mut outcome = SelfTestOutcome(measured.await?);
    for index in 0..outcome.0.len() {
        let (trial, report) = &outcome.0[index];
        if !outcome.is_as_expected(*trial, report) {
            outcome.0[index] = trial.measure(Instant::now()).await?;
        }
    }
    Ok(outcome)
}

impl Trial {
    /// Returns all trials: of each run, the one with the honest server comes first.
    fn all() -> impl Iterator<Item = Self> {
        RUNS.iter().flat_map(|run| {
            [None].into_iter().chain(run.faults.iter().map(Some)).map(move |fault| Self { run, fault })
        })
    }

    async fn measure(self, start: Instant) -> Result<(Self, Document), String> {
        sleep_until(start).await;
        let behaviour = self.fault.map_or(HONEST, |fault| fault.behaviour);
        let server = FaultyServer::start(move |_| behaviour).await;
        let server = server.map_err(|error| format!("cannot serve: {error}"))?;
        let words = format!("loadgen {}", self.run.words.replace("URL", &server.url()));
        match LoadgenArgs::try_parse_from(words.split(' ')).map_err(|error| error.to_string())?.command {
            LoadgenCommand::Run(scenario) => {
                let report = run::measure(&scenario, &ProgressLog::silent()).await;
                Ok((self, report.map_err(|why| why.to_string())?))
            }
            LoadgenCommand::Selftest => Err("only scenarios can be run here".to_owned()),
        }
    }

    fn checks(self) -> Vec<Assertion> {
        let checks = self.fault.map_or(self.run.honest_checks, |fault| fault.checks).split_whitespace();
        checks.map(|check| check.parse().expect("the checks are valid assertions")).collect()
    }

    /// Returns the numbers of the report that reveal the fault, or those that should not occur with an honest
    /// server.
    fn reported(self, report: &Document) -> String {
        let checks = self.checks().into_iter().filter(|check| self.fault.is_some() || !holds(check, report));
        let reported = checks.map(|check| match report.number(check.path()) {
            Ok(number) => format!("{} {number}", check.path()),
            Err(_) => format!("{} -", check.path()),
        });
        let reported = reported.collect::<Vec<_>>().join(", ");
        if reported.is_empty() { "nothing".to_owned() } else { reported }
    }
}

fn holds(check: &Assertion, report: &Document) -> bool {
    check.judge(report).holds == Some(true)
}

impl SelfTestOutcome {
    pub(crate) fn is_good(&self) -> bool {
        self.0.iter().all(|(trial, report)| self.is_as_expected(*trial, report))
    }

    /// Returns whether all checks hold, and in the case of a fault, not for the honest server as well.
    fn is_as_expected(&self, trial: Trial, report: &Document) -> bool {
        let shown = |report| trial.checks().iter().all(|check| holds(check, report));
        shown(report) && (trial.fault.is_none() || !shown(self.honest_report(trial.run)))
    }

    fn honest_report(&self, run: &SelfTestRun) -> &Document {
        let honest = self.0.iter().find(|(trial, _)| trial.run.words == run.words && trial.fault.is_none());
        &honest.expect("each run also has an honest server").1
    }

    pub(crate) fn to_table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        table.set_header(["fault", "scenario", "reported", ""]);
        for (trial, report) in &self.0 {
            let verdict = match (trial.fault, self.is_as_expected(*trial, report)) {
                (None, true) => "clean",
                (None, false) => "NOT CLEAN",
                (Some(_), true) => "found",
                (Some(_), false) => "MISSED",
            };
            let fault = trial.fault.map_or("nothing", |fault| fault.description);
            let scenario = trial.run.words.split(' ').next().unwrap_or_default();
            table.add_row([fault, scenario, &trial.reported(report), verdict]);
        }
        table.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Group;

    #[test]
    fn a_fault_is_found_if_only_the_faulty_report_shows_it() {
        let is_lossy = |trial: &Trial| trial.fault.is_some_and(|it| it.description == "loses a message");
        let faulty = Trial::all().find(is_lossy).expect("the fault exists");
        let report = |lost: u64| {
            let numbers = Group::default().with("lost", lost).with("duplicated", 0).with("misordered", 0);
            Document { numbers, ..Document::default() }
        };
        let is_found = |faulty_report, honest_report| {
            let honest = Trial { fault: None, ..faulty };
            let outcome = SelfTestOutcome(vec![(honest, honest_report), (faulty, faulty_report)]);
            !outcome.to_table().contains("MISSED")
        };
        assert!(is_found(report(1), report(0)));
        assert!(!is_found(report(0), report(0)), "not seen");
        assert!(!is_found(report(1), report(1)), "seen with the honest server too");
        assert!(!is_found(Document::default(), report(0)), "no longer counted");
        assert_eq!(faulty.reported(&report(1)), "lost 1, duplicated 0, misordered 0");
    }
}
