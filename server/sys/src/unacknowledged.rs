#![expect(unsafe_code, reason = "neither rustix nor socket2 nor nix has these two calls")]

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

/// What the peer's machine has not acknowledged of a TCP connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unacknowledged {
    /// Bytes that the kernel has taken and that the peer's kernel has not, as far as this end knows.
    pub bytes: u64,
    /// Some of them are on their way. If none are, the peer's kernel has said that it has no room: its program does not read.
    pub in_flight: bool,
    /// How long ago the peer's machine last acknowledged anything; a few milliseconds coarse.
    pub silent_for: Duration,
}

/// Asks the kernel, by SIOCOUTQ and TCP_INFO (tcp(7)).
///
/// # Errors
/// Those of the system: the socket is none of TCP, or not connected.
pub fn unacknowledged(socket: impl AsFd) -> io::Result<Unacknowledged> {
    let socket = socket.as_fd();
    let info = tcp_info(socket)?;
    Ok(Unacknowledged {
        bytes: queued_bytes(socket)?,
        in_flight: info.tcpi_unacked > 0,
        silent_for: Duration::from_millis(info.tcpi_last_ack_recv.into()),
    })
}

fn queued_bytes(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open as long as it is borrowed. TIOCOUTQ, which is SIOCOUTQ for a socket, writes one `int`.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(bytes).unwrap_or_default())
}

fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<libc::tcp_info> {
    // SAFETY: it consists of integers, for which zero is a value.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    let mut length = libc::socklen_t::try_from(size_of_val(&info)).expect("it is a few hundred bytes");
    // SAFETY: the descriptor is open as long as it is borrowed, and the kernel writes at most `length` bytes, which `info` has.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(info) }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn what_the_peer_does_not_read_stays_unacknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let mut here =
            TcpStream::connect(listener.local_addr().expect("an address")).expect("it is accepted");
        let (mut there, _) = listener.accept().expect("a connection");
        assert_eq!(unacknowledged(&here).expect("a TCP socket").bytes, 0);

        here.set_nonblocking(true).expect("a socket can be nonblocking");
        let mut sent = 0;
        loop {
            match here.write(&[0; 65_536]) {
                Ok(taken) => sent += taken as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        // The peer's kernel takes what it has room for, and then says that it has none.
        let full = loop {
            let now = unacknowledged(&here).expect("a TCP socket");
            if !now.in_flight {
                break now;
            }
            std::thread::yield_now();
        };
        assert!((1..sent).contains(&full.bytes), "{full:?} of {sent}");

        drop(here.set_nonblocking(false));
        let mut left = usize::try_from(sent).expect("it was written");
        let mut buffer = vec![0; 65_536];
        while left > 0 {
            left -= there.read(&mut buffer).expect("it was sent");
        }
        while unacknowledged(&here).expect("a TCP socket").bytes > 0 {
            std::thread::yield_now();
        }
        assert!(unacknowledged(&here).expect("a TCP socket").silent_for < Duration::from_secs(60));
    }

    #[test]
    fn other_sockets_have_nothing_to_acknowledge() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        unacknowledged(&socket).expect_err("UDP acknowledges nothing");
    }
}
