//! Free ports, also for programs that cannot choose one themselves and report it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use socket2::{Domain, Socket, Type};

use crate::network::NetworkLink;

/// Listens on a free loopback port.
pub fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("the listener is bound");
    (listener, address)
}

/// Port that no other program is given while this exists, even if nothing listens on it.
#[derive(Debug)]
pub struct Port {
    pub address: SocketAddr,
    /// Bound without listening, with an option that lets other processes bind to the port as well and listen.
    /// `None` in a namespace that has all ports for itself.
    _reserved: Option<Socket>,
}

impl Port {
    /// Reserves a free loopback port.
    pub fn reserve() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket can be created");
        socket.set_reuse_address(true).expect("the socket accepts the option");
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a port is free");
        let address = socket.local_addr().ok().and_then(|address| address.as_socket());
        Self { address: address.expect("the socket is bound"), _reserved: Some(socket) }
    }

    pub(crate) fn beyond(link: &NetworkLink, port: u16) -> Self {
        Self { address: SocketAddr::new(link.far_address(), port), _reserved: None }
    }
}
