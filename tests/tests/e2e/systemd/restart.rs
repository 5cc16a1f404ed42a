use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use encke_tests::waiting::{TIMEOUT, until};
use encke_tests::{Launch, RawClient, RunningServer};

/// Number of clients that connect while no server is running.
const WAITING_CLIENTS: usize = 50;
const RESTARTS: usize = 3;

struct HeldListener(TcpListener);

impl HeldListener {
    fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").expect("a port is free"))
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("the listener is bound")
    }

    fn launch(&self) -> Launch {
        let socket = OwnedFd::from(self.0.try_clone().expect("the listener can be duplicated"));
        Launch::with(&["shutdown.drain=15s"]).inheriting(socket, 1, Some("public"))
    }

    fn serve(&self) -> RunningServer {
        self.launch().start()
    }
}

#[test]
fn clients_that_connect_during_a_restart_are_served() {
    let listener = HeldListener::new();
    let mut server = listener.serve();
    for _ in 0..RESTARTS {
        let mut before = server.client();
        server.terminate();
        assert_eq!(before.close_code(), Some(4002));
        assert_eq!(server.await_exit(TIMEOUT).code(), Some(0));
        let waiting = (0..WAITING_CLIENTS).map(|_| {
            let mut client = RawClient::connect(listener.address());
            client.request_upgrade("");
            client
        });
        let waiting: Vec<_> = waiting.collect();
        server = listener.serve();
        for mut client in waiting {
            client.await_upgrade();
            client.hello();
        }
    }
    server.assert_healthy();
}

#[test]
fn no_connection_is_refused_during_a_restart() {
    let listener = HeldListener::new();
    // Clients that a server has accepted just before it drains receive a goaway, but no connection is
    // refused.
    let connect_some = || {
        (0..20)
            .for_each(|_| drop(TcpStream::connect(listener.address()).expect("the connection is accepted")))
    };
    let mut server = listener.serve();
    for _ in 0..RESTARTS {
        connect_some();
        server.terminate();
        until("the server ends", || {
            connect_some();
            server.try_wait().is_some()
        });
        let starting = listener.launch().spawn();
        until("the next server serves", || {
            connect_some();
            starting.logs.count("\"serving\"") > 0
        });
        server = starting.await_banner();
    }
    server.assert_healthy();
}
