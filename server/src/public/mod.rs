//! The public listener, which serves clients: WebSocket upgrades, event streams, and long-polling.

mod bayeux;
mod claiming;
mod context;
mod cors;
mod deadline;
#[cfg(test)]
mod ended_session_tests;
mod events;
mod forwarding;
mod long_poll;
mod module;
mod parameter_names;
mod poll_loop;
mod query;
mod receive;
mod routing;
mod session_request;
mod sessionless;
mod shared_socket;
mod upgrade_response;

use std::net::IpAddr;
use std::sync::Arc;

use tokio::net::TcpStream;

use context::NotServed;

pub(crate) use bayeux::BayeuxEndpoint;
#[cfg(feature = "simulation")]
pub(crate) use bayeux::{Requester, SocketUpgrade, request_with_body, serve_socket};
pub(crate) use context::Context;
#[cfg(feature = "simulation")]
pub(crate) use events::accept as accept_events;
pub(crate) use forwarding::accept_forwarded;
#[cfg(feature = "simulation")]
pub(crate) use long_poll::{accept as accept_poll, carry_out_all, session as session_of};
#[cfg(any(test, feature = "fuzzing", feature = "simulation"))]
pub(crate) use query::parse_query;
#[cfg(feature = "simulation")]
pub(crate) use shared_socket::SharedSocket;

/// Serves HTTP/1.1 on one connection, within TLS if that is configured. After `handshake_timeout` the
/// connection is closed unless it has a session, even if the client sends nothing, sends half a request, or
/// does not read the response. The same applies to each further request, from its first byte on. Until then,
/// the limit is `keep_alive_timeout`.
///
/// HTTP/2 is not supported, because hyper-util's `auto` builder has no timeout while it detects the version.
pub(crate) fn serve(socket: TcpStream, peer: IpAddr, context: Arc<Context>) {
    if context.proxies.proxy_protocol && !context.proxies.is_trusted(peer) {
        return context.report_refusal(&NotServed::UntrustedProxy, peer);
    }
    let permit = match context.permit(peer) {
        Ok(permit) => permit,
        Err(error) => return context.report_refusal(&error, peer),
    };
    // Count the connection before its task first runs, so that a drain does not overlook it.
    let open_connection = context.connections.enter(permit);
    let handshake = context.handshakes.begin(peer, context.client.timeouts.clock().now());
    poll_loop::spawn(socket, peer, handshake, open_connection, context);
}
