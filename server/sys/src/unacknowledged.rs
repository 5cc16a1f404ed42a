#![expect(unsafe_code, reason = "rustix, socket2 and nix provide neither of these calls")]

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

/// Data on a TCP connection that the peer's kernel has not acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unacknowledged {
    /// Number of bytes accepted by the local kernel and not known to be acknowledged by the peer's.
    pub bytes: u64,
    /// Whether some of these bytes are in flight. If none are, the peer's receive window is full because its
    /// program does not read.
    pub in_flight: bool,
    /// Time since the peer's kernel last acknowledged anything, accurate to a few milliseconds.
    pub silent_for: Duration,
}

/// Queries the kernel with SIOCOUTQ and TCP_INFO (tcp(7)).
///
/// # Errors
/// The system's error if the socket is not a connected TCP socket.
pub fn unacknowledged(socket: impl AsFd) -> io::Result<Unacknowledged> {
    let socket = socket.as_fd();
    let info = tcp_info(socket.as_raw_fd())?;
    Ok(Unacknowledged {
        bytes: queued_bytes(socket)?,
        in_flight: info.tcpi_unacked > 0,
        silent_for: Duration::from_millis(info.tcpi_last_ack_recv.into()),
    })
}

fn queued_bytes(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor stays open while it is borrowed. TIOCOUTQ, which equals SIOCOUTQ for sockets,
    // writes one `int`.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(bytes).unwrap_or_default())
}

/// Queries the kernel with TCP_INFO. If the descriptor has been closed and reused, the result describes the
/// new file.
pub(crate) fn tcp_info(descriptor: RawFd) -> io::Result<libc::tcp_info> {
    // SAFETY: the struct consists of integers, for which zero is a valid value.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    let mut length = libc::socklen_t::try_from(size_of_val(&info)).expect("a few hundred bytes");
    // SAFETY: the kernel writes at most `length` bytes, the size of `info`. If the descriptor is not that of
    // a TCP socket, the call fails.
    let result = unsafe {
        libc::getsockopt(
            descriptor,
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
    fn data_that_the_peer_does_not_read_stays_unacknowledged() {
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
        // The peer's kernel fills its receive buffer, then advertises a window of zero.
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
    fn non_tcp_sockets_are_rejected() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        unacknowledged(&socket).expect_err("UDP acknowledges nothing");
    }
}
