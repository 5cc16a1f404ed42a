//! Scenarios about sessions and their deadlines.

use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use encke_core::close::CloseCode;
use strum::IntoStaticStr;

use super::load::Held;
use super::number::{parse_interval, parse_share};
use crate::target::Target;

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Hold {
    #[command(flatten)]
    pub(crate) held: Held,
    /// Send pings as well, this often on each connection, and time their pongs
    #[arg(long, value_name = "D", value_parser = parse_interval)]
    pub(crate) ping_every: Option<Duration>,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Mute {
    #[command(flatten)]
    pub(crate) held: Held,
    /// The share of the connections that stops answering, above 0 and up to 1
    #[arg(long, value_name = "S", default_value = "1.0", value_parser = parse_share)]
    pub(crate) share: f64,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Late {
    #[command(flatten)]
    pub(crate) held: Held,
    /// How long before the deadline every other connection answers, and how long after it the others do
    #[arg(long, value_name = "D", default_value = "50ms", value_parser = humantime::parse_duration)]
    pub(crate) margin: Duration,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Expire {
    #[command(flatten)]
    pub(crate) held: Held,
    /// The server's timeout: how long after the hello, or after the connect, it is to end a connection
    #[arg(long, value_name = "D", value_parser = humantime::parse_duration)]
    pub(crate) after: Duration,
    /// The close code by which it tells so; any other end is none of this timeout. Without it, every end is
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(u16).range(1000..5000))]
    pub(crate) code: Option<u16>,
    /// What the server waits for in vain
    #[arg(long, value_enum, default_value_t = Omission::Commands)]
    pub(crate) without: Omission,
}

/// What is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, ValueEnum)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Omission {
    /// Pings are answered, and that is all
    Commands,
    /// Not a byte is sent
    Upgrade,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Vanish {
    #[command(flatten)]
    pub(crate) held: Held,
    /// How a socket is killed
    #[arg(long, value_enum, default_value_t = Kill::Rst)]
    pub(crate) kill: Kill,
    /// One half comes back this long before the reconnect window ends, the other half this long after it
    #[arg(long, value_name = "D", default_value = "250ms", value_parser = humantime::parse_duration)]
    pub(crate) margin: Duration,
}

/// How a socket ends without a Close frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, ValueEnum)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Kill {
    /// By a reset
    Rst,
    /// By the end of the stream
    Fin,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Takeover {
    #[command(flatten)]
    pub(crate) held: Held,
    /// The close code that the first connection is to get, over polls the HTTP status or the code of a goaway [default: 4100, over
    /// polls 409]
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(u16).range(400..5000))]
    code: Option<u16>,
}

impl Takeover {
    pub(crate) fn code(&self) -> u16 {
        const SUPERSEDED: u16 = 409;
        self.code.unwrap_or(match self.held.server.target {
            Target::Poll => SUPERSEDED,
            _ => CloseCode::Replaced.code(),
        })
    }
}
