//! What a connection at rest costs: all that is measured of it, part by part.

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

use crate::args::Plan;
use crate::bytes::FanoutRow;
use crate::pairs::Measured;
use crate::placement::Placement;
use crate::process::{Binaries, Kind};
use crate::{Failure, broadcast, bytes, loadgen, scenario, speaking};

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Part {
    /// Connecting, memory and pings of connections that do nothing
    Idle,
    /// Memory with 1 and with 4 subscriptions
    Subscribed,
    /// CPU time of a delivery
    Delivery,
    /// Memory before and after a fan-out
    Fanout,
    /// Clients that speak once a second
    Speaking,
    /// All connections are cut at once, and come back
    Storm,
}

/// The figures of one server in one run, as far as its parts were measured.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) run: u32,
    pub(crate) server: Kind,
    pub(crate) idle: Option<scenario::Row>,
    pub(crate) bytes_with_1_subscription: Option<f64>,
    pub(crate) bytes_with_4_subscriptions: Option<f64>,
    pub(crate) delivery: Option<broadcast::Row>,
    pub(crate) fanout: Option<FanoutRow>,
    pub(crate) speaking: Option<speaking::Row>,
    /// loadgen's report.
    pub(crate) storm: Option<Value>,
}

impl Measured for Row {
    fn run(&self) -> u32 {
        self.run
    }

    fn server(&self) -> Kind {
        self.server
    }
}

impl Part {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Subscribed => "subscribed",
            Self::Delivery => "delivery",
            Self::Fanout => "fanout",
            Self::Speaking => "speaking",
            Self::Storm => "storm",
        }
    }

    /// The controls have neither several channels nor sessions.
    pub(crate) fn is_for(self, kind: Kind) -> bool {
        kind.is_encke() || matches!(self, Self::Idle | Self::Delivery | Self::Speaking)
    }
}

impl Row {
    pub(crate) fn new(run: u32, server: Kind) -> Self {
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

    /// Measures one part, of a server started for it.
    pub(crate) async fn measure(
        &mut self,
        part: Part,
        plan: &Plan,
        binaries: &Binaries,
        placement: &Placement,
    ) -> Result<(), Failure> {
        let (run, kind) = (self.run, self.server);
        match part {
            Part::Idle => self.idle = Some(scenario::measure(run, kind, plan, binaries, placement).await?),
            Part::Subscribed => {
                let with = async |count| bytes::subscribed(kind, count, plan, binaries, placement).await;
                self.bytes_with_1_subscription = Some(with(1).await?);
                self.bytes_with_4_subscriptions = Some(with(4).await?);
            }
            Part::Delivery => {
                let plan = plan.of_crowd().without_pings();
                self.delivery = Some(broadcast::measure(run, kind, &plan, binaries, placement).await?);
            }
            Part::Fanout => {
                let plan = plan.of_crowd();
                self.fanout = Some(bytes::after_fanout(kind, &plan, binaries, placement).await?);
            }
            Part::Speaking => {
                let plan = plan.of_crowd().without_pings();
                self.speaking = Some(speaking::measure(kind, &plan, binaries, placement).await?);
            }
            Part::Storm => {
                self.storm = Some(loadgen::storm_at_once(kind, plan, binaries, placement).await?);
            }
        }
        Ok(())
    }

    /// Deliveries that did not come, or came twice or in the wrong order; connections that ended, or were not there again.
    pub(crate) fn went_wrong(&self) -> u64 {
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
