//! Client of a session server: connections over WebSocket, event streams, long-polling and Bayeux, with or
//! without TLS, and calls to the admin API.
//!
//! It is built for load generators: an idle connection keeps no buffer, and everything that a server does
//! wrong is named. A [`Dialer`] opens connections; it stays on one thread. Threads may share a [`Traffic`], and
//! clones of the same [`DialOptions`].

mod admin;
mod connection;
mod dialer;
mod event;
mod failure;
mod greeting;
mod json;
mod polling;
mod reader;
pub mod target;
mod token;
mod traffic;
pub mod transport;

pub use self::admin::AdminClient;
pub use self::connection::ClientConnection;
pub use self::dialer::{DialOptions, Dialer};
pub use self::event::ClientEvent;
pub use self::failure::{ClientFailure, kind_of_end};
pub use self::greeting::{Greeting, Ticket};
pub use self::json::take_number;
pub use self::reader::{ChannelReader, Received};
pub use self::target::{AdminUrl, ServerUrl, Target};
pub use self::token::{TokenSource, is_token};
pub use self::traffic::{Counter, Counts, Traffic};
pub use self::transport::websocket::ConnectionEnd;
pub use self::transport::{ADDRESSES, Sources, TlsOptions};
