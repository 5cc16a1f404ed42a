//! `loadgen selftest`: checks that this program reports the faults that it promises to report.
//!
//! [`server`] is a small server with one [`fault`] at a time. Scenarios run against it with the same code as
//! any other run, including the command line and the report. [`runs`] defines what each run reports about an
//! honest server, [`cases`] which run reports which fault, and [`verdict`] checks the reports.

mod cases;
mod delivery;
mod fault;
mod invalid_frame;
#[cfg(test)]
mod result_keys;
mod runs;
mod server;
mod verdict;

use std::time::Duration;

use clap::Parser;
use comfy_table::{Table, presets};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::time::{Instant, sleep_until};

use self::cases::CASES;
use self::fault::Fault;
use self::runs::{RUNS, SelfTestRun};
use self::server::FaultyServer;
use self::verdict::CaseVerdict;
use crate::args::{LoadgenArgs, LoadgenCommand};
use crate::progress::ProgressLog;
use crate::result::Document;
use crate::run;

/// A row of the self-test's table.
#[derive(Debug)]
struct SelfTestRow {
    fault: &'static str,
    scenario: &'static str,
    reported: String,
    verdict: CaseVerdict,
}

/// Verdicts on all runs.
#[derive(Debug)]
pub(crate) struct SelfTestOutcome(Vec<SelfTestRow>);

impl SelfTestOutcome {
    pub(crate) fn is_good(&self) -> bool {
        self.0.iter().all(|line| line.verdict.is_good())
    }

    pub(crate) fn to_table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        table.set_header(["fault", "scenario", "reported", ""]);
        for line in &self.0 {
            table.add_row([line.fault, line.scenario, &line.reported, line.verdict.word()]);
        }
        table.to_string()
    }
}

/// Time between the starts of consecutive runs. They share a thread, and connecting is their most expensive
/// part.
const STAGGER: Duration = Duration::from_millis(40);
/// Maximum number of concurrent runs. In an unoptimised build these runs use a quarter of a core. All runs
/// together would use half a core: too much if another program needs it.
const MAX_CONCURRENT_RUNS: usize = 20;

/// Reports of every run with the honest server, and of every case.
struct Reports {
    honest: Vec<Document>,
    faulty: Vec<Document>,
}

/// Runs everything concurrently, since most of the time is spent waiting. Then repeats failed runs one by
/// one, because a busy machine may be too slow for many concurrent runs.
pub(crate) async fn run() -> Result<SelfTestOutcome, String> {
    let mut reports = Reports::measure().await?;
    reports.repeat_failed().await?;
    Ok(reports.judge())
}

impl Reports {
    async fn measure() -> Result<Self, String> {
        let honest = RUNS.map(|run| (run, Fault::None));
        let faulty = CASES.iter().map(|case| (case.run, case.fault));
        let mut honest = measure_all(honest.into_iter().chain(faulty)).await?;
        let faulty = honest.split_off(RUNS.len());
        Ok(Self { honest, faulty })
    }

    async fn repeat_failed(&mut self) -> Result<(), String> {
        for (run, report) in RUNS.iter().zip(&mut self.honest) {
            if !run.judge(report).is_good() {
                *report = measure(run, Fault::None).await?;
            }
        }
        for (index, case) in CASES.iter().enumerate() {
            if !case.judge(&self.faulty[index], self.honest_report(case.run)).is_good() {
                self.faulty[index] = measure(case.run, case.fault).await?;
            }
        }
        Ok(())
    }

    fn honest_report(&self, run: &SelfTestRun) -> &Document {
        &self.honest[index_of(run)]
    }

    fn judge(&self) -> SelfTestOutcome {
        let honest = RUNS.iter().zip(&self.honest).map(|(run, report)| SelfTestRow {
            fault: Fault::None.describe(),
            scenario: run.scenario(),
            reported: run.reported(report),
            verdict: run.judge(report),
        });
        let faulty = CASES.iter().zip(&self.faulty).map(|(case, report)| SelfTestRow {
            fault: case.fault.describe(),
            scenario: case.run.scenario(),
            reported: case.reported(report),
            verdict: case.judge(report, self.honest_report(case.run)),
        });
        SelfTestOutcome(honest.chain(faulty).collect())
    }
}

/// Returns the index of a run in [`RUNS`].
fn index_of(run: &SelfTestRun) -> usize {
    RUNS.iter().position(|known| known.words == run.words).expect("each run also has an honest server")
}

/// Returns the reports of all these runs, at most [`MAX_CONCURRENT_RUNS`] of which run at the same time.
async fn measure_all(
    runs: impl Iterator<Item = (&'static SelfTestRun, Fault)>,
) -> Result<Vec<Document>, String> {
    let mut start = Instant::now();
    let measured = runs.map(|(run, fault)| {
        start += STAGGER;
        measure_at(start, run, fault)
    });
    stream::iter(measured).buffered(MAX_CONCURRENT_RUNS).try_collect().await
}

async fn measure_at(start: Instant, run: &SelfTestRun, fault: Fault) -> Result<Document, String> {
    sleep_until(start).await;
    measure(run, fault).await
}

/// Returns the report of one run against a server with one fault.
async fn measure(run: &SelfTestRun, fault: Fault) -> Result<Document, String> {
    let server = FaultyServer::start(fault).await.map_err(|error| format!("cannot serve: {error}"))?;
    let words = format!("loadgen {}", run.words.replace("URL", &server.url()));
    match LoadgenArgs::try_parse_from(words.split(' ')).map_err(|error| error.to_string())?.command {
        LoadgenCommand::Run(scenario) => {
            run::measure(&scenario, &ProgressLog::silent()).await.map_err(|why| why.to_string())
        }
        _ => Err("only scenarios can be run here".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::{Builder, LocalOptions};

    use super::*;

    /// Checks the case of a scenario that cannot detect a fault: it reports the same about the faulty server
    /// as about the honest one. This must count as missed, even on a busy machine.
    #[test]
    fn undetected_faults_are_missed() {
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        let runtime = runtime.expect("the runtime can be created");
        let runs = RUNS.into_iter().map(|run| (run, Fault::None));
        let honest = runtime.block_on(measure_all(runs)).expect("every run completes");
        let faulty = CASES.iter().map(|case| honest[index_of(case.run)].clone()).collect();
        let outcome = Reports { honest, faulty }.judge();
        let (honest, faulty) = outcome.0.split_at(RUNS.len());
        assert_eq!((honest.len(), faulty.len()), (RUNS.len(), CASES.len()));
        assert!(faulty.iter().all(|line| line.verdict == CaseVerdict::Missed), "{}", outcome.to_table());
        assert!(!outcome.is_good());
    }
}
