//! Source addresses: each has about 28,000 ephemeral ports towards a server, but loopback has many addresses.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;

use tokio::net::{TcpSocket, TcpStream};

/// How many connects use one source address before the next. Linux tries one half of the ports
/// first; once those are taken each connect searches through all of them. Measured: 19,000 connections and their
/// resumes took 11 s of system time from one address, and 2.4 s from several.
const CONNECTS_PER_ADDRESS: u32 = 10_000;
/// 127.0.0.1 to 127.0.0.250, then 127.0.0.1 again: 2.5 million connects.
pub const ADDRESSES: u8 = 250;

/// Connects to one server, from each source address in turn.
#[derive(Clone, Debug)]
pub struct Sources {
    server: SocketAddr,
    /// The indices of its addresses.
    range: Range<u8>,
    current: Cell<u8>,
    connects: Cell<u32>,
}

impl Sources {
    /// Uses this range of the source addresses, counted from 0: several processes share them out.
    pub fn new(server: SocketAddr, range: Range<u8>) -> Self {
        Self { server, current: Cell::new(range.start), range, connects: Cell::new(0) }
    }

    /// Where it connects to.
    pub(crate) fn server(&self) -> SocketAddr {
        self.server
    }

    /// Connects once. An address that has run out of ports is left behind for the next one.
    /// The kernel takes in `receive_buffer_bytes` before they are read, where it is not left to choose.
    pub(crate) async fn connect(&self, receive_buffer_bytes: Option<u32>) -> io::Result<TcpStream> {
        loop {
            let index = self.take_turn();
            let socket = self.socket(index)?;
            if let Some(bytes) = receive_buffer_bytes {
                socket.set_recv_buffer_size(bytes)?;
            }
            let result = socket.connect(self.server).await;
            match result {
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable && self.leave(index) => {}
                result => return result,
            }
        }
    }

    /// The index of the address for one more connect.
    fn take_turn(&self) -> u8 {
        if self.connects.get() == CONNECTS_PER_ADDRESS {
            self.leave(self.current.get());
        }
        self.connects.set(self.connects.get() + 1);
        self.current.get()
    }

    /// Moves on from this address unless another connect already did. False if it was the last one.
    fn leave(&self, index: u8) -> bool {
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

/// One more connection to where this one leads, from the address that it has here: a server takes both for the same client's.
pub(super) fn connect_beside(stream: &TcpStream) -> impl Future<Output = io::Result<TcpStream>> + use<> {
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

/// Lets `bind` fix the address alone. Otherwise it would reserve a port for all destinations at once.
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
    fn the_turn_moves_on_after_its_share() {
        let sources = Sources::new(([127, 0, 0, 1], 80).into(), 0..ADDRESSES);
        for index in [0, 1, 2] {
            for _ in 0..CONNECTS_PER_ADDRESS {
                assert_eq!(sources.take_turn(), index);
            }
        }
    }

    #[test]
    fn an_exhausted_address_is_left_once() {
        let sources = Sources::new(([127, 0, 0, 1], 80).into(), 0..ADDRESSES);
        let index = sources.take_turn();
        assert!(sources.leave(index));
        assert!(sources.leave(index), "a second connect that failed there tries the next address, too");
        assert_eq!(sources.take_turn(), 1);
        assert!(!sources.leave(ADDRESSES - 1), "after the last address the error is the answer");
        assert!(
            !Sources::new(([192, 0, 2, 1], 80).into(), 0..ADDRESSES).leave(0),
            "elsewhere there is but one address"
        );
    }

    #[test]
    fn a_range_of_addresses_is_not_left() {
        let sources = Sources::new(([127, 0, 0, 1], 80).into(), 246..ADDRESSES);
        let first = sources.take_turn();
        assert_eq!(first, 246);
        let next: Vec<bool> = (first..ADDRESSES).map(|index| sources.leave(index)).collect();
        assert_eq!(next, [true, true, true, false]);
        assert_eq!(sources.take_turn(), first, "and from the beginning again");
    }

    #[tokio::test]
    async fn connects_from_the_address_whose_turn_it_is() -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let sources = Sources::new(listener.local_addr()?, 0..ADDRESSES);
        sources.leave(0);
        let stream = sources.connect(None).await?;
        assert_eq!(stream.local_addr()?.ip(), IpAddr::from([127, 0, 0, 2]));
        let beside = connect_beside(&stream).await?;
        assert_eq!(beside.local_addr()?.ip(), IpAddr::from([127, 0, 0, 2]));
        Ok(())
    }
}
