//! `loadgen selftest`: does this program report what it promises to report?
//!
//! [`server`] is a small server with one [`fault`] at a time. Scenarios run against it with the code of any other run,
//! command line and report included; [`runs`] says what each reports of an honest one, [`cases`] of which fault, and
//! [`verdict`] whether it did.

mod bad_frame;
mod cases;
mod delivery;
mod fault;
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
use self::runs::{RUNS, Run};
use self::server::Server;
use self::verdict::Verdict;
use crate::args::{Args, Command};
use crate::progress::Log;
use crate::result::Document;
use crate::run;

/// One row of the result.
#[derive(Debug)]
struct Line {
    fault: &'static str,
    scenario: &'static str,
    told: String,
    verdict: Verdict,
}

/// What was found and what not.
#[derive(Debug)]
pub(crate) struct Outcome(Vec<Line>);

impl Outcome {
    pub(crate) fn is_good(&self) -> bool {
        self.0.iter().all(|line| line.verdict.is_good())
    }

    pub(crate) fn to_table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        table.set_header(["fault", "scenario", "reported", ""]);
        for line in &self.0 {
            table.add_row([line.fault, line.scenario, &line.told, line.verdict.word()]);
        }
        table.to_string()
    }
}

/// From the start of one run to that of the next, for they share a thread: connecting is what takes time.
const STAGGER: Duration = Duration::from_millis(40);
/// So many runs are under way at a time. A build without optimization needs a quarter of a core for these, and half of one for all at once:
/// too much where another program wants the core too.
const AT_ONCE: usize = 20;

/// What was reported of every run against the honest server, and of every case.
struct Reports {
    honest: Vec<Document>,
    faulty: Vec<Document>,
}

/// Runs many things at once, since nearly all of it is waiting; and then what did not come out well once more, one
/// after the other, for on a busy machine many at once may be too much.
pub(crate) async fn run() -> Result<Outcome, String> {
    let mut reports = Reports::measure().await?;
    reports.measure_again().await?;
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

    async fn measure_again(&mut self) -> Result<(), String> {
        for (run, report) in RUNS.iter().zip(&mut self.honest) {
            if !run.judge(report).is_good() {
                *report = measure(run, Fault::None).await?;
            }
        }
        for (index, case) in CASES.iter().enumerate() {
            if !case.judge(&self.faulty[index], self.honest_of(case.run)).is_good() {
                self.faulty[index] = measure(case.run, case.fault).await?;
            }
        }
        Ok(())
    }

    fn honest_of(&self, run: &Run) -> &Document {
        &self.honest[index_of(run)]
    }

    fn judge(&self) -> Outcome {
        let honest = RUNS.iter().zip(&self.honest).map(|(run, report)| Line {
            fault: Fault::None.describe(),
            scenario: run.scenario(),
            told: run.told(report),
            verdict: run.judge(report),
        });
        let faulty = CASES.iter().zip(&self.faulty).map(|(case, report)| Line {
            fault: case.fault.describe(),
            scenario: case.run.scenario(),
            told: case.told(report),
            verdict: case.judge(report, self.honest_of(case.run)),
        });
        Outcome(honest.chain(faulty).collect())
    }
}

/// The place of a run in [`RUNS`].
fn index_of(run: &Run) -> usize {
    RUNS.iter().position(|known| known.words == run.words).expect("each is run honestly, too")
}

/// The reports of all these runs, [`AT_ONCE`] at a time.
async fn measure_all(runs: impl Iterator<Item = (&'static Run, Fault)>) -> Result<Vec<Document>, String> {
    let mut start = Instant::now();
    let measured = runs.map(|(run, fault)| {
        start += STAGGER;
        measure_at(start, run, fault)
    });
    stream::iter(measured).buffered(AT_ONCE).try_collect().await
}

async fn measure_at(start: Instant, run: &Run, fault: Fault) -> Result<Document, String> {
    sleep_until(start).await;
    measure(run, fault).await
}

/// The report of one run against a server with one fault.
async fn measure(run: &Run, fault: Fault) -> Result<Document, String> {
    let server = Server::start(fault).await.map_err(|error| format!("cannot serve: {error}"))?;
    let words = format!("loadgen {}", run.words.replace("URL", &server.url()));
    match Args::try_parse_from(words.split(' ')).map_err(|error| error.to_string())?.command {
        Command::Run(scenario) => {
            run::measure(&scenario, &Log::silent()).await.map_err(|why| why.to_string())
        }
        _ => Err("only scenarios are run here".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::{Builder, LocalOptions};

    use super::*;

    /// A scenario that does not see a fault reports of the faulty server what it reports of the honest one, on a busy machine too.
    #[test]
    fn faults_that_are_not_seen_are_missed() {
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        let runtime = runtime.expect("there is a thread and an epoll");
        let runs = RUNS.into_iter().map(|run| (run, Fault::None));
        let honest = runtime.block_on(measure_all(runs)).expect("everything runs");
        let faulty = CASES.iter().map(|case| honest[index_of(case.run)].clone()).collect();
        let outcome = Reports { honest, faulty }.judge();
        let (honest, faulty) = outcome.0.split_at(RUNS.len());
        assert_eq!((honest.len(), faulty.len()), (RUNS.len(), CASES.len()));
        assert!(faulty.iter().all(|line| line.verdict == Verdict::Missed), "{}", outcome.to_table());
        assert!(!outcome.is_good());
    }
}
