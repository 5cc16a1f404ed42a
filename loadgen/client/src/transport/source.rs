//! Source addresses. Each address provides about 28,000 ephemeral ports for connections to a server, and
//! loopback has many addresses.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;

#[cfg(target_os = "linux")]
use nix::sys::socket::{setsockopt, sockopt::IpBindAddressNoPort};
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

    pub fn server(&self) -> SocketAddr {
        self.server
    }

    /// Opens one connection. If an address has run out of ports, tries the next address.
    /// `receive_buffer_bytes` sets the size of the kernel's receive buffer; with `None`, the kernel chooses
    /// it.
    pub(crate) async fn connect(&self, receive_buffer_bytes: Option<u32>) -> io::Result<TcpStream> {
        loop {
            let index = self.next_index();
            let socket = socket(self.address(index), self.server)?;
            if let Some(bytes) = receive_buffer_bytes {
                socket.set_recv_buffer_size(bytes)?;
            }
            match socket.connect(self.server).await {
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable && self.move_on_from(index) => {
                }
                result => return result,
            }
        }
    }

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

    /// Returns the source address with this index. `None`: the kernel chooses the address.
    fn address(&self, index: u8) -> Option<IpAddr> {
        (self.is_loopback() && index > 0).then(|| Ipv4Addr::new(127, 0, 0, index + 1).into())
    }
}

pub(super) async fn connect_from(local: IpAddr, server: SocketAddr) -> io::Result<TcpStream> {
    socket(Some(local), server)?.connect(server).await
}

/// Creates a socket for a connection to the server, from this local address if there is one.
fn socket(local: Option<IpAddr>, server: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if server.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_nodelay(true)?;
    if let Some(local) = local {
        // Makes `bind` set only the address. Otherwise it would also reserve a port, for all destinations.
        #[cfg(target_os = "linux")]
        setsockopt(&socket, IpBindAddressNoPort, &true)?;
        socket.bind((local, 0).into())?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn sources(range: Range<u8>) -> Sources {
        Sources::new(([127, 0, 0, 1], 80).into(), range)
    }

    #[test]
    fn addresses_rotate_within_their_range() {
        let sources = sources(248..ADDRESSES);
        for index in [248, 249, 248] {
            for _ in 0..CONNECTS_PER_ADDRESS {
                assert_eq!(sources.next_index(), index);
            }
        }
    }

    #[test]
    fn an_exhausted_address_is_left_once() {
        let sources = sources(0..2);
        assert!(sources.move_on_from(0) && sources.move_on_from(0), "both connects try the next address");
        assert_eq!(sources.next_index(), 1);
        assert!(!sources.move_on_from(1), "this was the last address");
        let remote = Sources::new(([192, 0, 2, 1], 80).into(), 0..ADDRESSES);
        assert!(!remote.move_on_from(0), "only loopback has several addresses");
    }

    #[tokio::test]
    async fn connects_from_the_current_address() -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let sources = Sources::new(listener.local_addr()?, 0..ADDRESSES);
        sources.move_on_from(0);
        let stream = sources.connect(None).await?;
        assert_eq!(stream.local_addr()?.ip(), IpAddr::from([127, 0, 0, 2]));
        Ok(())
    }
}
