use std::net::{TcpListener, TcpStream};

use encke_tests::port::listen;
use encke_tests::waiting::until;
use encke_tests::{Launch, RawClient};

/// Number of clients that connect while no server is running.
const WAITING_CLIENTS: usize = 50;
const RESTARTS: usize = 2;

/// Configures a server that inherits this listener, which stays open.
fn launch(listener: &TcpListener) -> Launch {
    let socket = listener.try_clone().expect("the listener can be duplicated");
    Launch::with(&["shutdown.drain=15s"]).inheriting(socket, 1, Some("public"))
}

/// Clients that a server has accepted just before it drains receive a goaway, but no connection is refused.
/// Clients that connect while no server is running are served by the next one.
#[test]
fn no_connection_is_refused_during_a_restart() {
    let (listener, address) = listen();
    let connect_some =
        || (0..20).for_each(|_| drop(TcpStream::connect(address).expect("the connection is accepted")));
    let mut server = launch(&listener).start();
    for _ in 0..RESTARTS {
        let mut before = server.client();
        connect_some();
        server.terminate();
        assert_eq!(before.close_code(), Some(4002));
        until("the server ends", || {
            connect_some();
            server.try_wait().is_some()
        });
        let waiting = (0..WAITING_CLIENTS).map(|_| {
            let mut client = RawClient::connect(address);
            client.request_upgrade("");
            client
        });
        let waiting: Vec<_> = waiting.collect();
        let starting = launch(&listener).spawn();
        until("the next server serves", || {
            connect_some();
            starting.logs.count("\"serving\"") > 0
        });
        server = starting.await_banner();
        for mut client in waiting {
            client.await_upgrade();
            client.hello();
        }
    }
    server.assert_healthy();
}
