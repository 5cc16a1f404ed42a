//! The process that the user has started: it starts the others, has them begin at once, and adds up what they tell.

use std::cell::RefCell;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::line::Line;
use super::merge::merge;
use super::mirror::Mirror;
use super::processes::Processes;
use super::rows::Rows;
use crate::args::{Load, WorkerId};
use crate::cost::{Bottleneck, Cost};
use crate::process::Signals;
use crate::progress::{self, Bar, Log};
use crate::record::Recorder;
use crate::result::Measured;
use crate::result::{Ending, Group};

/// The children sample each full second; so long after they have been told to begin, all have told the first sample.
const FIRST_LOOK: Duration = Duration::from_millis(1300);
const LOOK: Duration = Duration::from_secs(1);

/// Runs all parts of a load.
pub(crate) async fn run(processes: u32, load: &Load, log: &Log) -> Result<Measured, String> {
    let mut signals = Signals::listen().map_err(|error| format!("cannot listen for signals: {error}"))?;
    let recorder = Recorder::starting_now();
    let mut cost = Cost::open(&load.server.cost, &recorder, log).await?;
    let mut children = Processes::spawn(&WorkerId::all(processes), log)?;
    let mirror = Mirror::new(processes as usize, &recorder);
    let whole = Whole {
        load,
        recorder: &recorder,
        mirror: &mirror,
        rows: RefCell::new(Rows::new(processes as usize)),
        bottleneck: RefCell::default(),
        log,
    };
    let bars = || vec![Bar { label: "open", done: mirror.load().connections, of: load.connections.into() }];
    let began = tokio::select! {
        began = children.begin() => began,
        () = signals.next() => Err("interrupted before the start".to_owned()),
    };
    let ended = match &began {
        Ok(_) => tokio::select! {
            ended = whole.watch(&mut children, &mut signals) => ended,
            never = cost.watch(|| mirror.load()) => match never {},
            never = progress::draw(log.clone(), &recorder, bars) => match never {},
        },
        Err(why) => Err(why.clone()),
    };
    recorder.sample();
    let parts = children.end().await;
    let (started_at, ending) = (began?, ended?);
    cost.look_after().await;
    let mut measured = merge(parts, whole.rows.into_inner().into_series(), started_at)?;
    if let Some(ending) = ending {
        measured.run.ending = ending;
    }
    let bottleneck = whole.bottleneck.into_inner();
    bottleneck.warnings().iter().for_each(|warning| log.line(warning));
    let own = Group::default().with("processes", u64::from(processes)).and(bottleneck.outcome());
    measured.numbers = with_costs(measured.numbers, cost.server(), own);
    measured.series = measured.series.with_columns_of(&recorder.series(), |name| name.starts_with("server."));
    Ok(measured)
}

/// The server's cost before loadgen's, which has more to tell.
fn with_costs(numbers: Group, server: Option<Group>, own: Group) -> Group {
    let mut all = Group::default();
    let mut loadgen = Group::default();
    for (name, field) in numbers {
        match field.as_group() {
            Some(group) if name == "loadgen" => loadgen = group.clone(),
            _ => all.push(name, field),
        }
    }
    if let Some(server) = server {
        all = all.with("server", server);
    }
    all.with("loadgen", loadgen.and(own))
}

/// The run as a whole, while the children are at it.
struct Whole<'a> {
    load: &'a Load,
    recorder: &'a Recorder,
    mirror: &'a Mirror,
    rows: RefCell<Rows>,
    bottleneck: RefCell<Bottleneck>,
    log: &'a Log,
}

impl Whole<'_> {
    /// Until all children have told what they have measured. How it ended, if they do not know themselves.
    async fn watch(&self, children: &mut Processes, signals: &mut Signals) -> Result<Option<Ending>, String> {
        let mut second = interval_at(Instant::now() + FIRST_LOOK, LOOK);
        second.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let ending = loop {
            tokio::select! {
                told = children.next() => match told? {
                    Some((child, line)) => self.on_line(child, line)?,
                    None => return Ok(None),
                },
                _ = second.tick() => if let Some(assertion) = self.look() {
                    self.log.line(&format!("ended early: {assertion} cannot hold any more"));
                    break Ending::Aborted(assertion);
                },
                () = signals.next() => break Ending::Interrupted,
            }
        };
        children.stop(|child, line| self.on_line(child, line)).await?;
        Ok(Some(ending))
    }

    fn on_line(&self, child: usize, line: Line) -> Result<(), String> {
        let Line::Sample(told) = line else { return Ok(()) };
        if child == 0 && self.recorder.current_phase() != told.phase {
            self.recorder.phase(&told.phase);
        }
        self.mirror.add(child, &told);
        self.rows.borrow_mut().add(child, told)
    }

    /// Returns an assertion that cannot hold any more, if that is to end the run.
    fn look(&self) -> Option<String> {
        self.recorder.sample();
        let second = self.mirror.second(self.recorder.last().get("server.cores"));
        if self.bottleneck.borrow_mut().look(second) {
            self.log.line("loadgen itself is the bottleneck: one of its processes uses up its core, and the server does not");
        }
        let output = &self.load.server.output;
        if output.json_lines {
            progress::print_sample(self.recorder);
        }
        let is_past =
            |path: &str, is_past: &dyn Fn(f64) -> bool| self.recorder.growing(path).is_some_and(is_past);
        let mut assertions = output.assertions.iter().filter(|_| output.abort_on_fail);
        assertions.find(|it| is_past(it.path(), &|number| it.is_past(number))).map(ToString::to_string)
    }
}
