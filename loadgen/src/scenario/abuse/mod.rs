//! Attacks a server while a well-behaved session is measured: what does the attack cost attacker and server,
//! and does it harm that session?
//!
//! The [`healthy`] session runs on the main thread, like all other scenarios. The [`attacker`] has a separate
//! thread, so its work delays the server and not the measurement, unless both have to share a core.
//! [`attack`] has a function for each attack, and [`costs`] counts what the attack costs. A [`trial`] is one
//! attack with the quiet time before and after it. The next trial begins when the server is idle.

mod attack;
mod attacker;
mod costs;
mod healthy;
mod trial;
mod visitor;

use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use self::trial::Trial;
use super::Setup;
use crate::args::AbuseOptions;
use crate::process::SampledProcess;
use crate::record::Metrics;

const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum CPU time per interval of a server that counts as idle. The kernel counts in hundredths of a
/// second.
const MAX_IDLE_CPU: Duration = Duration::from_millis(50);
/// Maximum time to wait for a server that stays busy.
const MAX_WAIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Abuse {
    options: AbuseOptions,
    trials: Vec<Trial>,
}

impl Abuse {
    pub(super) fn new(options: AbuseOptions, metrics: &Metrics) -> Self {
        let trials = options.attacks().into_iter().map(|attack| Trial::new(attack, &options, metrics));
        Self { trials: trials.collect(), options }
    }

    pub(super) async fn run(self: Rc<Self>, setup: Rc<Setup>) {
        let server = setup.dialer.server();
        if !server.ip().is_loopback() && !self.options.authorized {
            let why = format!("{server} is not on this machine: an attack on it needs --authorized");
            setup.refuse(why);
            return std::future::pending().await;
        }
        for trial in &self.trials {
            trial.run(&setup, &self.options).await;
            if let Some(pid) = setup.load.server.cost.pid {
                wait_until_idle(pid).await;
            }
        }
    }
}

/// Returns when the process has used almost no CPU time for a second, or has exited.
async fn wait_until_idle(pid: u32) {
    let Ok(process) = SampledProcess::open(pid) else { return };
    let start = Instant::now();
    let mut cpu = None;
    while start.elapsed() < MAX_WAIT {
        let Ok(reading) = process.reading() else { return };
        if cpu.replace(reading.cpu).is_some_and(|before| reading.cpu.saturating_sub(before) < MAX_IDLE_CPU) {
            return;
        }
        sleep(CHECK_INTERVAL).await;
    }
}
