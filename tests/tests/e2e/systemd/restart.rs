use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use encke_tests::waiting::{TIMEOUT, until};
use encke_tests::{Launch, RawClient, RunningServer};

/// Clients that come while there is no server.
const WAITING: usize = 50;
const RESTARTS: usize = 3;

struct Held(TcpListener);

impl Held {
    fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").expect("a free port"))
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("it is bound")
    }

    fn launch(&self) -> Launch {
        let socket = OwnedFd::from(self.0.try_clone().expect("it is open"));
        Launch::with(&["shutdown.drain=15s"]).inheriting(socket, 1, Some("public"))
    }

    fn serve(&self) -> RunningServer {
        self.launch().start()
    }
}

#[test]
fn clients_that_come_meanwhile_wait_and_are_served() {
    let held = Held::new();
    let mut server = held.serve();
    for _ in 0..RESTARTS {
        let mut before = server.client();
        server.terminate();
        assert_eq!(before.close_code(), Some(4002));
        assert_eq!(server.await_exit(TIMEOUT).code(), Some(0));
        let waiting = (0..WAITING).map(|_| {
            let mut client = RawClient::connect(held.address());
            client.request_upgrade("");
            client
        });
        let waiting: Vec<_> = waiting.collect();
        server = held.serve();
        for mut client in waiting {
            client.await_upgrade();
            client.hello();
        }
    }
    server.assert_healthy();
}

#[test]
fn nobody_is_refused_at_any_moment_of_a_restart() {
    let held = Held::new();
    // Those that a server has taken just before it drains are told so; nobody finds the door closed.
    let come = || (0..20).for_each(|_| drop(TcpStream::connect(held.address()).expect("nobody is refused")));
    let mut server = held.serve();
    for _ in 0..RESTARTS {
        come();
        server.terminate();
        until("the server ends", || {
            come();
            server.try_wait().is_some()
        });
        let starting = held.launch().spawn();
        until("the next one serves", || {
            come();
            starting.logs.count("\"serving\"") > 0
        });
        server = starting.await_banner();
    }
    server.assert_healthy();
}
