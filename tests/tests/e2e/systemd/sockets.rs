use std::fs::File;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;

use encke_tests::waiting::TIMEOUT;
use encke_tests::{Client, Launch, RawClient};
use socket2::{Domain, SockRef, Socket, Type};

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a free port")
}

fn clone(listener: &TcpListener) -> OwnedFd {
    listener.try_clone().expect("it is open").into()
}

/// Asserts that it does not start, and what it says.
#[track_caller]
fn assert_refused(launch: Launch, parts: &[&str]) {
    let mut starting = launch.set("listen.wait=off").spawn();
    assert_eq!(starting.process.await_exit(TIMEOUT).code(), Some(1), "{}", starting.logs.text());
    for part in parts {
        starting.logs.await_line(part);
    }
}

#[test]
fn a_socket_is_known_by_its_name() {
    let listener = listener();
    let address = listener.local_addr().expect("it is bound");
    // It waits since before the server began.
    let mut early = RawClient::connect(address);
    early.request_upgrade("");
    // The configuration has another address.
    let server = Launch::default().inheriting(clone(&listener), 1, Some("public")).start();
    assert_eq!(server.public, address);
    assert_ne!(server.admin.address(), address);
    early.await_upgrade();
    early.hello();
    server.assert_healthy();
    server.logs.await_line("listening on an inherited socket");
    assert_eq!(server.logs.count("systemd's variables"), 0, "they were removed: {}", server.logs.text());
}

#[test]
fn a_socket_without_a_name_of_ours_is_known_by_its_address() {
    for name in [None, Some("encke.socket"), Some("")] {
        let listener = listener();
        let address = listener.local_addr().expect("it is bound");
        let launch = Launch::listening_on(&address.to_string());
        let server = launch.inheriting(clone(&listener), 1, name).start();
        assert_eq!(server.public, address);
        server.assert_healthy();
    }
}

#[test]
fn it_has_the_options_of_the_servers_own() {
    let listener = listener();
    let server = Launch::with(&["limits.send_buffer=32KiB", "limits.receive_buffer=32KiB"])
        .inheriting(clone(&listener), 1, Some("public"))
        .start();
    let socket = SockRef::from(&listener);
    // The kernel tells twice what it was asked for, for its own needs.
    assert_eq!(socket.send_buffer_size().expect("it is told"), 2 * 32 * 1024);
    assert_eq!(socket.recv_buffer_size().expect("it is told"), 2 * 32 * 1024);
    assert!(socket.tcp_nodelay().expect("it is told"));
    assert_eq!(socket.tcp_notsent_lowat().expect("it is told"), 16 * 1024);
    assert!(socket.nonblocking().expect("it is told"));
    server.assert_healthy();
}

/// `systemd-socket-activate` opens sockets, waits for the first client, and becomes the server.
#[test]
fn both_sockets_come_from_systemd_socket_activate() {
    // A host of its own, on which no port is taken.
    let host: [u8; 3] = std::array::from_fn(|_| rand::random_range(1..255));
    let host = format!("127.{}.{}.{}", host[0], host[1], host[2]);
    let (public, admin) = (format!("{host}:8000"), format!("{host}:8001"));
    for names in [Some("--fdname=admin:public"), None] {
        let mut activate = vec!["systemd-socket-activate", "--listen", &admin, "--listen", &public];
        activate.extend(names);
        let launch = match names {
            // The configuration has other addresses.
            Some(_) => Launch::default(),
            None => Launch::listening_on_both(&public, &admin),
        };
        let starting = launch.wrapped_by(&activate).spawn();
        starting.logs.await_line(&format!("Listening on {admin}"));
        starting.logs.await_line(&format!("Listening on {public}"));
        let first = TcpStream::connect(&public).expect("the socket is open");
        let server = starting.await_banner();
        assert_eq!(
            (server.public.to_string(), server.admin.address().to_string()),
            (public.clone(), admin.clone())
        );
        assert!(!Client::over(first, "").hello.recovered, "it was served");
        server.assert_healthy();
    }
}

#[test]
fn what_cannot_be_listened_on_is_refused() {
    let unbound = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let listener = listener();
    let connected = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it is open");
    let folder = tempfile::tempdir().expect("a folder");
    let unix = UnixListener::bind(folder.path().join("socket")).expect("the folder is new");
    let cases: [(&str, OwnedFd); 5] = [
        ("not a socket", File::open("/dev/null").expect("it is there").into()),
        ("not a valid tcp socket", UdpSocket::bind("127.0.0.1:0").expect("a free port").into()),
        ("not a valid tcp socket", unix.into()),
        ("does not listen", connected.into()),
        ("does not listen", unbound.into()),
    ];
    for (problem, descriptor) in cases {
        let launch = Launch::default().inheriting(descriptor, 1, Some("public"));
        assert_refused(launch, &["the socket `public`, number 1 of LISTEN_FDS", problem]);
    }
}

#[test]
fn one_too_many_is_refused() {
    let listener = listener();
    let address = listener.local_addr().expect("it is bound").to_string();
    for (sockets, names) in
        [(2, Some("public:public")), (3, Some("public:admin:public")), (1, Some("other")), (1, None)]
    {
        let launch = Launch::default().inheriting(clone(&listener), sockets, names);
        assert_refused(launch, &[&address, "belongs to no listener", "named `public`"]);
    }
}

#[test]
fn names_and_numbers_that_do_not_fit_are_refused() {
    let listener = listener();
    let launch = || Launch::default().inheriting(clone(&listener), 1, Some("public"));
    assert_refused(
        Launch::default().inheriting(clone(&listener), 2, Some("public")),
        &["LISTEN_FDNAMES has names for 1"],
    );
    for count in ["-1", "many", "", "17", "99999999999999999999"] {
        let shell = format!("export LISTEN_PID=$$ LISTEN_FDS='{count}'");
        assert_refused(launch().run_first(&shell), &["LISTEN_FDS is", "no number of sockets"]);
    }
    // Where there is no descriptor.
    let shell = "export LISTEN_PID=$$ LISTEN_FDS=1 && exec 3<&-";
    assert_refused(Launch::default().run_first(shell), &["number 1 of LISTEN_FDS", "not a socket"]);
}

#[test]
fn sockets_for_another_process_are_left_alone() {
    let server =
        Launch::default().run_first("export LISTEN_PID=1 LISTEN_FDS=2 LISTEN_FDNAMES=public:admin").start();
    server.assert_healthy();
    assert_eq!(server.logs.count("open before"), 0);
}

#[test]
fn beyond_loopback_it_needs_authentication_like_the_servers_own() {
    // Nobody is told of its port.
    let listener = TcpListener::bind("0.0.0.0:0").expect("a free port");
    let launch = |name| Launch::default().inheriting(clone(&listener), 1, Some(name));
    assert_refused(launch("public"), &["`public`", "beyond loopback without authentication", "auth.secret"]);
    assert_refused(launch("admin"), &["`admin`", "beyond loopback without authentication", "auth.api_keys"]);
    let server = launch("public").argument("--insecure").start();
    assert_eq!(server.admin.get("/healthz").status, 200);
}
