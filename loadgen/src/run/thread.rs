//! A thread of a run. It opens a share of the connections.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use encke_client::{ADDRESSES, Dialer, Sources};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::MeasureError;
use crate::args::{Load, ScenarioOptions, Share};
use crate::failures::Failures;
use crate::progress::ProgressLog;
use crate::record::{Highest, Metrics, Phases, Stalls, Traffic};
use crate::result::millis;
use crate::scenario::{Setup, create};

/// Interval at which a thread checks that it runs.
const TURN: Duration = Duration::from_millis(10);

/// State that all threads of a run share.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) options: ScenarioOptions,
    pub(super) server: SocketAddr,
    pub(super) metrics: Metrics,
    pub(super) traffic: Traffic,
    pub(super) phases: Phases,
    pub(super) log: ProgressLog,
    /// Longest time by which a thread ran late. Measurements may be too high by as much.
    pub(super) lag_ms: Highest,
}

/// Starts a thread with this share of the load. It ends when its part of the scenario is over, or when `stop`
/// changes, and sends why there can be no result, if so.
pub(super) fn start(
    shared: Shared,
    load: Load,
    share: Share,
    stop: watch::Receiver<bool>,
    ended: mpsc::UnboundedSender<Option<MeasureError>>,
) -> io::Result<thread::JoinHandle<()>> {
    let runtime = move || Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    thread::Builder::new().name(format!("loadgen-{}", share.index)).spawn(move || {
        let failed = match runtime() {
            Ok(runtime) => runtime.block_on(run(&shared, load, share, stop)),
            Err(error) => Some(MeasureError::Failed(format!("cannot start a thread's runtime: {error}"))),
        };
        // The receiver lives until all threads have ended.
        let _ = ended.send(failed);
    })
}

/// Returns why there can be no result, if so.
async fn run(
    shared: &Shared,
    load: Load,
    share: Share,
    mut stop: watch::Receiver<bool>,
) -> Option<MeasureError> {
    let of_process = load.part.map_or(0..ADDRESSES, |part| part.addresses(0..ADDRESSES));
    let sources = Sources::new(shared.server, share.addresses(of_process));
    let (refusal, mut refused) = mpsc::channel(1);
    let setup = Rc::new(Setup {
        dialer: Rc::new(Dialer::new(load.server.dial_options(), sources, &shared.traffic)),
        load,
        failures: Failures::new(&shared.metrics, &shared.log),
        phases: Some(shared.phases.clone()),
        stalls: Stalls::default(),
        refusal,
    });
    if let Err(failure) = setup.dialer.check_token().await {
        return Some(MeasureError::Failed(failure.to_string()));
    }
    let scenario = create(&shared.options, &shared.metrics);
    tokio::select! {
        () = scenario(setup.clone()) => None,
        Some(why) = refused.recv() => Some(MeasureError::Refused(why)),
        _ = stop.wait_for(|is_stopped| *is_stopped) => None,
        never = watch_lag(&setup.stalls, &shared.lag_ms) => match never {},
    }
}

async fn watch_lag(stalls: &Stalls, lag_ms: &Highest) -> std::convert::Infallible {
    let mut turn = interval(TURN);
    turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = turn.tick().await;
        let now = Instant::now();
        stalls.turn(now);
        lag_ms.record(millis(now.saturating_duration_since(due)));
    }
}
