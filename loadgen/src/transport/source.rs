//! Source addresses. Each address provides about 28,000 ephemeral ports for connections to a server, and
//! loopback has many addresses.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;

use tokio::net::{TcpSocket, TcpStream};

/// Number of connections from one source address before moving to the next address. Linux tries one half of
/// the ports first; once those are taken, each `connect` searches through all of them. Measured: 19,000
/// connections and their resumes took 11 s of system time from one address, and 2.4 s from several.
const CONNECTS_PER_ADDRESS: u32 = 10_000;
/// Number of source addresses, 127.0.0.1 to 127.0.0.250. After 2.5 million connections, 127.0.0.1 is used
/// again.
pub const ADDRESSES: u8 = 250;

/// Connects to one server, from each source address in turn.
#[derive(Clone, Debug)]
pub struct Sources {
    server: SocketAddr,
    /// Indices of the source addresses.
    range: Range<u8>,
    current: Cell<u8>,
    connects: Cell<u32>,
}

impl Sources {
    /// Creates an instance that uses this range of the source addresses, counted from 0. Each process takes a
    /// separate range.
    pub fn new(server: SocketAddr, range: Range<u8>) -> Self {
        Self { server, current: Cell::new(range.start), range, connects: Cell::new(0) }
    }

    pub(crate) fn server(&self) -> SocketAddr {
        self.server
    }

    /// Opens one connection. If an address has run out of ports, tries the next address.
    /// `receive_buffer_bytes` sets the size of the kernel's receive buffer; with `None`, the kernel chooses
    /// it.
    pub(crate) async fn connect(&self, receive_buffer_bytes: Option<u32>) -> io::Result<TcpStream> {
        loop {
            let index = self.next_index();
            let socket = self.socket(index)?;
            if let Some(bytes) = receive_buffer_bytes {
                socket.set_recv_buffer_size(bytes)?;
            }
            let result = socket.connect(self.server).await;
            match result {
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable && self.move_on_from(index) => {
                }
                result => return result,
            }
        }
    }

    /// Returns the index of the address for the next connection.
    fn next_index(&self) -> u8 {
        if self.connects.get() == CONNECTS_PER_ADDRESS {
            self.move_on_from(self.current.get());
        }
        self.connects.set(self.connects.get() + 1);
        self.current.get()
    }

    /// Moves on from this address, unless another connection attempt already has. Returns false if this was
    /// the last address.
    fn move_on_from(&self, index: u8) -> bool {
        if self.current.get() == index {
            let next = Some(index + 1).filter(|next| self.range.contains(next));
            self.current.set(next.unwrap_or(self.range.start));
            self.connects.set(0);
        }
        self.is_loopback() && index + 1 < self.range.end
    }

    fn is_loopback(&self) -> bool {
        matches!(self.server.ip(), IpAddr::V4(ip) if ip.is_loopback())
    }

    fn socket(&self, index: u8) -> io::Result<TcpSocket> {
        let socket = if self.server.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_nodelay(true)?;
        if self.is_loopback() && index > 0 {
            choose_port_at_connect(&socket)?;
            socket.bind((Ipv4Addr::new(127, 0, 0, index + 1), 0).into())?;
        }
        Ok(socket)
    }
}

/// Opens another connection to the same peer from the same local address, so that the server attributes both
/// to the same client.
pub(super) fn connect_from_same_address(
    stream: &TcpStream,
) -> impl Future<Output = io::Result<TcpStream>> + use<> {
    let addresses = stream.local_addr().and_then(|local| Ok((local.ip(), stream.peer_addr()?)));
    async move {
        let (local, server) = addresses?;
        let socket = if server.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_nodelay(true)?;
        choose_port_at_connect(&socket)?;
        socket.bind((local, 0).into())?;
        socket.connect(server).await
    }
}

/// Makes `bind` set only the address. Otherwise it would also reserve a port, for all destinations.
#[cfg(target_os = "linux")]
fn choose_port_at_connect(socket: &TcpSocket) -> io::Result<()> {
    use nix::sys::socket::{setsockopt, sockopt::IpBindAddressNoPort};
    Ok(setsockopt(socket, IpBindAddressNoPort, &true)?)
}

#[cfg(not(target_os = "linux"))]
fn choose_port_at_connect(_socket: &TcpSocket) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn addresses_rotate_after_their_share() {
        let sources = Sources::new(([127, 0, 0, 1], 80).into(), 0..ADDRESSES);
        for index in [0, 1, 2] {
            for _ in 0..CONNECTS_PER_ADDRESS {
                assert_eq!(sources.next_index(), index);
            }
        }
    }

    #[test]
    fn an_exhausted_address_is_left_once() {
        let sources = Sources::new(([127, 0, 0, 1], 80).into(), 0..ADDRESSES);
        let index = sources.next_index();
        assert!(sources.move_on_from(index));
        assert!(
            sources.move_on_from(index),
            "a second connect that failed on this address also tries the next one"
        );
        assert_eq!(sources.next_index(), 1);
        assert!(!sources.move_on_from(ADDRESSES - 1), "after the last address the error is returned");
        assert!(
            !Sources::new(([192, 0, 2, 1], 80).into(), 0..ADDRESSES).move_on_from(0),
            "only loopback has several addresses"
        );
    }

    #[test]
    fn addresses_stay_within_their_range() {
        let sources = Sources::new(([127, 0, 0, 1], 80).into(), 246..ADDRESSES);
        let first = sources.next_index();
        assert_eq!(first, 246);
        let next: Vec<bool> = (first..ADDRESSES).map(|index| sources.move_on_from(index)).collect();
        assert_eq!(next, [true, true, true, false]);
        assert_eq!(sources.next_index(), first, "starts over at the first address");
    }

    #[tokio::test]
    async fn connects_from_the_current_address() -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let sources = Sources::new(listener.local_addr()?, 0..ADDRESSES);
        sources.move_on_from(0);
        let stream = sources.connect(None).await?;
        assert_eq!(stream.local_addr()?.ip(), IpAddr::from([127, 0, 0, 2]));
        let beside = connect_from_same_address(&stream).await?;
        assert_eq!(beside.local_addr()?.ip(), IpAddr::from([127, 0, 0, 2]));
        Ok(())
    }
}
