//! Options of the scenarios that test sessions and their deadlines.

use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use encke_core::close::CloseCode;
use strum::IntoStaticStr;

use super::load::ConnectionOptions;
use super::number::{parse_interval, parse_share};
use crate::target::Target;

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct HoldOptions {
    #[command(flatten)]
    pub(crate) held: ConnectionOptions,
    /// Also send pings, at this interval on each connection, and measure the time until their pongs arrive
    #[arg(long, value_name = "D", value_parser = parse_interval)]
    pub(crate) ping_every: Option<Duration>,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct MuteOptions {
    #[command(flatten)]
    pub(crate) held: ConnectionOptions,
    /// Share of the connections that stops answering pings, above 0 and up to 1
    #[arg(long, value_name = "S", default_value = "1.0", value_parser = parse_share)]
    pub(crate) share: f64,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct LateOptions {
    #[command(flatten)]
    pub(crate) held: ConnectionOptions,
    /// Every other connection answers this long before the deadline, the rest this long after it
    #[arg(long, value_name = "D", default_value = "50ms", value_parser = humantime::parse_duration)]
    pub(crate) margin: Duration,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct ExpireOptions {
    #[command(flatten)]
    pub(crate) held: ConnectionOptions,
    /// The server's timeout: how long after the hello (or after the connection was accepted) it should close
    /// a connection
    #[arg(long, value_name = "D", value_parser = humantime::parse_duration)]
    pub(crate) after: Duration,
    /// Close code that belongs to this timeout; connections that end otherwise do not count [default: any end
    /// counts]
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(u16).range(1000..5000))]
    pub(crate) code: Option<u16>,
    /// Part of the protocol that the client withholds
    #[arg(long, value_enum, default_value_t = Omission::Commands)]
    pub(crate) without: Omission,
}

/// Part of the protocol that the client withholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, ValueEnum)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Omission {
    /// Answer pings, but send no commands
    Commands,
    /// Send nothing at all
    Upgrade,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct VanishOptions {
    #[command(flatten)]
    pub(crate) held: ConnectionOptions,
    /// How to kill a socket
    #[arg(long, value_enum, default_value_t = Kill::Rst)]
    pub(crate) kill: Kill,
    /// One half reconnects this long before the reconnect window ends, the other half this long after it
    #[arg(long, value_name = "D", default_value = "250ms", value_parser = humantime::parse_duration)]
    pub(crate) margin: Duration,
}

/// How to end a connection without a Close frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, ValueEnum)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Kill {
    /// Reset the connection
    Rst,
    /// End the stream
    Fin,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct TakeoverOptions {
    #[command(flatten)]
    pub(crate) held: ConnectionOptions,
    /// Close code that the first connection should receive; over polls, the HTTP status or the code of a
    /// goaway [default: 4100, over polls 409]
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(u16).range(400..5000))]
    code: Option<u16>,
}

impl TakeoverOptions {
    pub(crate) fn code(&self) -> u16 {
        const SUPERSEDED: u16 = 409;
        self.code.unwrap_or(match self.held.server.target {
            Target::Poll => SUPERSEDED,
            _ => CloseCode::Replaced.code(),
        })
    }
}
