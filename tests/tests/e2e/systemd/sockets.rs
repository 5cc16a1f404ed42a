use std::fs::File;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;

use encke_tests::port::listen;
use encke_tests::{Client, Launch, RawClient};
use socket2::{Domain, SockRef, Socket, Type};

fn clone(listener: &TcpListener) -> OwnedFd {
    listener.try_clone().expect("the listener can be duplicated").into()
}

/// Asserts that the server does not start, and that its log contains these texts.
#[track_caller]
fn assert_refused(launch: Launch, parts: &[&str]) {
    let mut starting = launch.set("listen.wait=off").spawn();
    assert_eq!(starting.process.await_exit().code(), Some(1), "{}", starting.logs.text());
    for part in parts {
        starting.logs.await_line(part);
    }
}

/// The socket gets the server's options.
#[test]
fn a_socket_is_matched_by_its_name() {
    let (listener, address) = listen();
    // This client waits in the socket's backlog until the server starts.
    let mut early = RawClient::connect(address);
    early.request_upgrade("");
    // The server uses the inherited socket although the configuration has another address.
    let server = Launch::with(&["limits.send_buffer=32KiB", "limits.receive_buffer=32KiB"])
        .inheriting(clone(&listener), 1, Some("public"))
        .start();
    assert_eq!(server.public, address);
    let socket = SockRef::from(&listener);
    // The kernel reports twice the requested size, to account for its own overhead.
    assert_eq!(socket.send_buffer_size().ok(), Some(2 * 32 * 1024));
    assert_eq!(socket.recv_buffer_size().ok(), Some(2 * 32 * 1024));
    assert_eq!(socket.tcp_notsent_lowat().ok(), Some(16 * 1024));
    assert_eq!((socket.tcp_nodelay().ok(), socket.nonblocking().ok()), (Some(true), Some(true)));
    assert_ne!(server.admin.address(), address);
    early.await_upgrade();
    early.hello();
    server.assert_healthy();
    server.logs.await_line("listening on an inherited socket");
    assert_eq!(server.logs.count("systemd's variables"), 0, "they were removed: {}", server.logs.text());
}

#[test]
fn a_socket_with_another_name_is_matched_by_its_address() {
    for name in [None, Some("encke.socket"), Some("")] {
        let (listener, address) = listen();
        let launch = Launch::listening_on(&address.to_string());
        let server = launch.inheriting(clone(&listener), 1, name).start();
        assert_eq!(server.public, address);
        server.assert_healthy();
    }
}

/// `systemd-socket-activate` opens the sockets, waits for the first client, and executes the server.
#[test]
fn both_sockets_come_from_systemd_socket_activate() {
    // A random loopback address, on which the default ports are free.
    let host: [u8; 3] = std::array::from_fn(|_| rand::random_range(1..255));
    let host = format!("127.{}.{}.{}", host[0], host[1], host[2]);
    let (public, admin) = (format!("{host}:8000"), format!("{host}:8001"));
    for names in [Some("--fdname=admin:public"), None] {
        let mut activate = vec!["systemd-socket-activate", "--listen", &admin, "--listen", &public];
        activate.extend(names);
        let launch = match names {
            // Found by name: the addresses differ.
            Some(_) => Launch::default(),
            None => Launch::listening_on_both(&public, &admin),
        };
        let starting = launch.wrapped_by(&activate).spawn();
        starting.logs.await_line(&format!("Listening on {admin}"));
        starting.logs.await_line(&format!("Listening on {public}"));
        let first = TcpStream::connect(&public).expect("the socket is open");
        let server = starting.await_banner();
        let addresses = [server.public, server.admin.address()].map(|address| address.to_string());
        assert_eq!(addresses, [&*public, &admin]);
        assert!(!Client::over(first, "").hello.recovered, "the first client is served");
        server.assert_healthy();
    }
}

#[test]
fn unusable_descriptors_are_rejected() {
    let unbound = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket can be created");
    let (_listener, address) = listen();
    let connected = TcpStream::connect(address).expect("the listener accepts");
    let folder = tempfile::tempdir().expect("a temporary directory can be created");
    let unix = UnixListener::bind(folder.path().join("socket")).expect("the directory is new");
    let cases: [(&str, OwnedFd); 5] = [
        ("not a socket", File::open("/dev/null").expect("/dev/null exists").into()),
        ("not a valid tcp socket", UdpSocket::bind("127.0.0.1:0").expect("a port is free").into()),
        ("not a valid tcp socket", unix.into()),
        ("it is not listening", connected.into()),
        ("it is not listening", unbound.into()),
    ];
    for (problem, descriptor) in cases {
        let launch = Launch::default().inheriting(descriptor, 1, Some("public"));
        assert_refused(launch, &["the socket `public`, number 1 of LISTEN_FDS", problem]);
    }
}

#[test]
fn superfluous_sockets_and_invalid_variables_are_rejected() {
    let (listener, address) = listen();
    let address = address.to_string();
    let launch = |sockets, names| Launch::default().inheriting(clone(&listener), sockets, names);
    let superfluous = [&*address, "belongs to no listener", "named `public`"];
    assert_refused(launch(2, Some("public:public")), &superfluous);
    assert_refused(launch(1, Some("other")), &superfluous);
    assert_refused(launch(1, None), &superfluous);
    assert_refused(launch(2, Some("public")), &["LISTEN_FDNAMES names 1 sockets"]);
    for count in ["-1", "", "17"] {
        let shell = format!("export LISTEN_PID=$$ LISTEN_FDS='{count}'");
        let launch = launch(1, Some("public")).run_first(&shell);
        assert_refused(launch, &["LISTEN_FDS is", "not a number from 0 to"]);
    }
    // There is no descriptor with this number.
    let shell = "export LISTEN_PID=$$ LISTEN_FDS=1 && exec 3<&-";
    assert_refused(Launch::default().run_first(shell), &["number 1 of LISTEN_FDS", "not a socket"]);
}

#[test]
fn sockets_for_another_process_are_ignored() {
    let server =
        Launch::default().run_first("export LISTEN_PID=1 LISTEN_FDS=2 LISTEN_FDNAMES=public:admin").start();
    server.assert_healthy();
    assert_eq!(server.logs.count("inherited socket"), 0);
}

#[test]
fn inherited_sockets_beyond_loopback_require_authentication() {
    // The test can listen on all addresses, because the port is not published anywhere.
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port is free");
    let launch = |name| Launch::default().inheriting(clone(&listener), 1, Some(name));
    assert_refused(launch("public"), &["`public`", "beyond loopback without authentication", "auth.secret"]);
    assert_refused(launch("admin"), &["`admin`", "beyond loopback without authentication", "auth.api_keys"]);
    let server = launch("public").argument("--insecure").start();
    assert_eq!(server.admin.get("/healthz").status, 200);
}
