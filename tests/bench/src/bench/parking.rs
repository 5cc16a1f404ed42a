//! The cost of parked connections, measured part by part.

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

use crate::args::Plan;
use crate::comparison::Measurement;
use crate::memory::FanoutRow;
use crate::placement::CpuPlacement;
use crate::process::{BenchBinaries, ServerKind};
use crate::{BenchFailure, broadcast, command_load, heartbeat, loadgen, memory};

/// Parts that can be measured separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ParkingPart {
    /// Connecting, memory and pings of connections that do nothing
    Idle,
    /// Memory with 1 and with 4 subscriptions
    Subscribed,
    /// CPU time of a delivery
    Delivery,
    /// Memory before and after a fan-out
    Fanout,
    /// Clients that send a command every second
    Commands,
    /// All connections are dropped simultaneously, and all clients reconnect
    Storm,
}

/// Results of one server in one run, for the parts that were measured.
#[derive(Debug, Serialize)]
pub(crate) struct ParkingRow {
    pub(crate) run: u32,
    pub(crate) server: ServerKind,
    pub(crate) idle: Option<heartbeat::HeartbeatRow>,
    pub(crate) bytes_with_1_subscription: Option<f64>,
    pub(crate) bytes_with_4_subscriptions: Option<f64>,
    pub(crate) delivery: Option<broadcast::BroadcastRow>,
    pub(crate) fanout: Option<FanoutRow>,
    pub(crate) speaking: Option<command_load::CommandRow>,
    /// loadgen's report.
    pub(crate) storm: Option<Value>,
}

impl Measurement for ParkingRow {
    fn run(&self) -> u32 {
        self.run
    }

    fn server(&self) -> ServerKind {
        self.server
    }
}

impl ParkingPart {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Subscribed => "subscribed",
            Self::Delivery => "delivery",
            Self::Fanout => "fanout",
            Self::Commands => "commands",
            Self::Storm => "storm",
        }
    }

    /// Returns whether a part can be measured with this server: the controls have neither several channels
    /// nor sessions.
    pub(crate) fn is_for(self, kind: ServerKind) -> bool {
        kind.is_encke() || matches!(self, Self::Idle | Self::Delivery | Self::Commands)
    }
}

impl ParkingRow {
    pub(crate) fn new(run: u32, server: ServerKind) -> Self {
        Self {
            run,
            server,
            idle: None,
            bytes_with_1_subscription: None,
            bytes_with_4_subscriptions: None,
            delivery: None,
            fanout: None,
            speaking: None,
            storm: None,
        }
    }

    /// Measures one part with a freshly started server.
    pub(crate) async fn measure(
        &mut self,
        part: ParkingPart,
        plan: &Plan,
        binaries: &BenchBinaries,
        placement: &CpuPlacement,
    ) -> Result<(), BenchFailure> {
        let (run, kind) = (self.run, self.server);
        match part {
            ParkingPart::Idle => {
                self.idle = Some(heartbeat::measure(run, kind, plan, binaries, placement).await?)
            }
            ParkingPart::Subscribed => {
                let with = async |count| memory::subscribed(kind, count, plan, binaries, placement).await;
                self.bytes_with_1_subscription = Some(with(1).await?);
                self.bytes_with_4_subscriptions = Some(with(4).await?);
            }
            ParkingPart::Delivery => {
                let plan = plan.with_broadcast_clients().without_pings();
                self.delivery = Some(broadcast::measure(run, kind, &plan, binaries, placement).await?);
            }
            ParkingPart::Fanout => {
                let plan = plan.with_broadcast_clients();
                self.fanout = Some(memory::after_fanout(kind, &plan, binaries, placement).await?);
            }
            ParkingPart::Commands => {
                let plan = plan.with_broadcast_clients().without_pings();
                self.speaking = Some(command_load::measure(kind, &plan, binaries, placement).await?);
            }
            ParkingPart::Storm => {
                self.storm =
                    Some(loadgen::storm_without_handshake_limit(kind, plan, binaries, placement).await?);
            }
        }
        Ok(())
    }

    /// Returns the number of deliveries that are missing, duplicated or out of order, connections that ended,
    /// and clients that did not resume.
    pub(crate) fn count_errors(&self) -> u64 {
        let idle = self.idle.as_ref().map_or(0, |row| row.unexpected_closes.into());
        let delivery = self.delivery.as_ref().map_or(0, |row| {
            row.lost + row.duplicated + row.misordered + row.other + u64::from(row.unexpected_closes)
        });
        let fanout = self.fanout.as_ref().map_or(0, |row| row.wrong + u64::from(row.unexpected_closes));
        let speaking = self.speaking.as_ref().map_or(0, |row| row.unexpected_closes.into());
        let storm = self.storm.as_ref().map_or(0, |storm| {
            let count = |name| storm.get(name).and_then(Value::as_u64).unwrap_or(0);
            count("errors") + count("unexpected_closes") + (count("dropped") - count("resumed"))
        });
        idle + delivery + fanout + speaking + storm
    }
}
