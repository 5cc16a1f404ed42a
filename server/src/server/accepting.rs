//! Handling of accepted connections, for both listeners.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::select;
use tokio::net::TcpStream;

use crate::http::{Acceptor, ConnectionHandler, Listener};
use crate::{admin, client, public};

/// Accepts clients until the server drains. Their sockets get descriptors below `below`.
pub(crate) async fn accept_clients(listener: Listener, context: Arc<public::Context>, below: usize) {
    let stop = context.stop.clone();
    let accepting = acceptor(&context.client, below).accept(listener, Clients(context));
    select(pin!(accepting), pin!(stop.cancelled())).await;
}

/// Accepts administrators until the runtime stops.
pub(crate) async fn accept_admins(listener: Listener, context: Arc<admin::Context>) {
    acceptor(&context.client, usize::MAX).accept(listener, Admins(context)).await;
}

fn acceptor(context: &client::Services, below: usize) -> Acceptor {
    Acceptor::new(Arc::clone(&context.timeouts), Arc::clone(&context.metrics), below)
}

/// Connections of the public listener.
struct Clients(Arc<public::Context>);

impl ConnectionHandler for Clients {
    async fn wait_for_room(&self) {
        self.0.handshakes.wait_for_slot(&self.0.client.timeouts).await;
    }

    fn hurry_closing(&self) {
        self.0.client.limits.descriptors.report_shortage();
    }

    fn evict_one(&self) -> bool {
        self.0.handshakes.free_descriptor(self.0.client.timeouts.clock().now())
    }

    fn serve(&self, socket: TcpStream, peer: IpAddr) {
        public::serve(socket, peer, Arc::clone(&self.0));
    }
}

/// Connections of the admin listener.
struct Admins(Arc<admin::Context>);

impl ConnectionHandler for Admins {
    /// Never waits: if there are too many connections, the oldest one is evicted.
    async fn wait_for_room(&self) {}

    fn serve(&self, socket: TcpStream, peer: IpAddr) {
        admin::serve(socket, peer, Arc::clone(&self.0));
    }
}
