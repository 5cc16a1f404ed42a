//! Clients that send a command every second: the cost of a command that unparks its connection each time.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use encke_loadgen::{ChannelReader, ClientConnection, ClientEvent, Received};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::BenchFailure;
use crate::args::Plan;
use crate::clients::{BenchClients, Workload};
use crate::heartbeat::{SETTLE, to_real};
use crate::placement::CpuPlacement;
use crate::process::{BenchBinaries, MeasuredServer, ServerKind};
use crate::sample::cpu_time;
use crate::subscribers::CHANNEL;

const PERIOD: Duration = Duration::from_secs(1);
/// How long clients send commands before the measurement begins, so that the server reaches a steady state.
const WARM_UP: Duration = Duration::from_secs(6);

/// Load of clients that publish to a channel without subscribers, at a fixed period.
#[derive(Debug)]
pub(crate) struct CommandLoad {
    /// When the first client sends its first command. Those of the other clients are spread evenly over the
    /// following period.
    since: watch::Sender<Option<Instant>>,
    size: u32,
    reader: ChannelReader,
    command: String,
    /// Number of commands whose replies have arrived.
    pub(crate) answered: std::cell::Cell<u64>,
}

/// Results of one server in one run.
#[derive(Debug, Serialize)]
pub(crate) struct CommandRow {
    pub(crate) connections: u32,
    pub(crate) idle_cpu_percent: f64,
    pub(crate) commands: u64,
    /// CPU time of a command, without the server's idle load.
    pub(crate) cpu_us_per_command: f64,
    pub(crate) unexpected_closes: u32,
}

pub(crate) async fn measure(
    kind: ServerKind,
    plan: &Plan,
    binaries: &BenchBinaries,
    placement: &CpuPlacement,
) -> Result<CommandRow, BenchFailure> {
    let server = MeasuredServer::start(kind, plan, binaries, placement).await?;
    let pid = server.pid()?;
    sleep(SETTLE).await;
    let speaking = Rc::new(CommandLoad::of(plan.connections));
    let errand = Workload::SendCommands(Rc::clone(&speaking));
    let clients = BenchClients::connect(server.clients, plan.connections, plan.rate, errand).await?;
    sleep(SETTLE).await;
    let (idle_since, before_idle) = (Instant::now(), cpu_time(pid)?);
    sleep(plan.idle).await;
    let idle = (cpu_time(pid)? - before_idle).as_secs_f64() / idle_since.elapsed().as_secs_f64();

    speaking.begin();
    sleep(WARM_UP).await;
    let (since, begin, answered) = (Instant::now(), cpu_time(pid)?, speaking.answered.get());
    sleep(plan.command_load).await;
    let (took, end) = (since.elapsed().as_secs_f64(), cpu_time(pid)?);
    let commands = speaking.answered.get() - answered;
    let unexpected_closes = clients.ended();
    server.stop().await?;
    Ok(CommandRow {
        connections: plan.connections,
        idle_cpu_percent: 100.0 * idle,
        commands,
        cpu_us_per_command: 1e6 * ((end - begin).as_secs_f64() - idle * took) / to_real(commands),
        unexpected_closes,
    })
}

impl CommandLoad {
    fn of(size: u32) -> Self {
        Self {
            since: watch::Sender::new(None),
            size,
            reader: ChannelReader::new(CHANNEL),
            command: format!(r#"{{"id":2,"publish":{{"channel":"{CHANNEL}","data":"x"}}}}"#),
            answered: std::cell::Cell::new(0),
        }
    }

    fn begin(&self) {
        self.since.send_replace(Some(Instant::now()));
    }

    /// Runs one client until its connection ends. Returns the reason.
    pub(crate) async fn run_client(&self, connection: &mut ClientConnection, number: u32) -> String {
        let mut since = self.since.subscribe();
        let since = since.wait_for(Option::is_some).await.ok().and_then(|since| *since);
        let mut due = since.unwrap_or_else(Instant::now) + PERIOD * number / self.size;
        loop {
            sleep_until(due).await;
            due += PERIOD;
            connection.send(&self.command).await;
            let reply = connection.each(|event| match event {
                ClientEvent::Text(text) => {
                    ControlFlow::Break(self.reader.read(text) == Received::Reply(None))
                }
                _ => ControlFlow::Continue(()),
            });
            match reply.await {
                Ok(true) => self.answered.set(self.answered.get() + 1),
                Ok(false) => return "the server refused the publish".to_owned(),
                Err(end) => return end.to_string(),
            }
        }
    }
}
