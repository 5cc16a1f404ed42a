//! What becomes of the connections that both listeners accept.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::select;
use tokio::net::TcpStream;

use crate::http::{Acceptor, Listener, Serve};
use crate::{admin, client, public};

/// Accepts clients until the server drains. Their sockets have descriptors with numbers below this.
pub(crate) async fn accept_clients(listener: Listener, context: Arc<public::Context>, below: usize) {
    let stop = context.stop.clone();
    let accepting = acceptor(&context.client, below).accept(listener, Clients(context));
    select(pin!(accepting), pin!(stop.cancelled())).await;
}

/// Accepts those who administer, for as long as the runtime lives.
pub(crate) async fn accept_admins(listener: Listener, context: Arc<admin::Context>) {
    acceptor(&context.client, usize::MAX).accept(listener, Admins(context)).await;
}

fn acceptor(context: &client::Context, below: usize) -> Acceptor {
    Acceptor::new(Arc::clone(&context.timeouts), Arc::clone(&context.metrics), below)
}

/// Connections of the public listener.
struct Clients(Arc<public::Context>);

impl Serve for Clients {
    async fn room(&self) {
        self.0.handshakes.room(&self.0.client.timeouts).await;
    }

    fn hurry(&self) {
        self.0.client.descriptors.want();
    }

    fn give_way(&self) -> bool {
        self.0.handshakes.give_way(self.0.client.timeouts.clock().now())
    }

    fn serve(&self, socket: TcpStream, peer: SocketAddr) {
        public::serve(socket, peer, Arc::clone(&self.0));
    }
}

/// Connections of the admin listener.
struct Admins(Arc<admin::Context>);

impl Serve for Admins {
    /// Where there are too many, the oldest gives way.
    async fn room(&self) {}

    fn serve(&self, socket: TcpStream, peer: SocketAddr) {
        admin::serve(socket, peer, Arc::clone(&self.0));
    }
}
