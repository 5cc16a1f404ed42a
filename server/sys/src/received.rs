#![expect(unsafe_code, reason = "no crate provides these calls for a descriptor that is not borrowed")]

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::ptr;
use std::time::Duration;

use crate::unacknowledged::tcp_info;
use crate::wall_clock::{Clocks, WallClock, clock, to_duration};

/// Buffer for the control message with the time.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Lets the kernel record when it receives data, on this socket and on those that it accepts. See
/// [`next_byte_received`].
///
/// # Errors
/// The system's error.
pub fn record_receive_times(socket: impl AsFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = libc::socklen_t::try_from(size_of_val(&on)).expect("a few bytes");
    // SAFETY: the kernel reads one `int`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            length,
        )
    };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    // Record the offset of the wall clock, so that later changes are noticed.
    _ = WallClock::shared().offset(Clocks::read());
    Ok(())
}

/// Returns the time at which the kernel received the next unread byte of this connection, on CLOCK_MONOTONIC.
/// If the kernel has merged it with later data, returns the time of the latest of these. `None` if there is no
/// unread byte, its time was not recorded, or the wall clock could not be read or was changed recently.
///
/// # Errors
/// The connection's error. The kernel reports it only once, so the caller must treat it as an error of the next read.
pub fn next_byte_received(descriptor: RawFd) -> io::Result<Option<Duration>> {
    let (mut byte, mut control) = (0_u8, Control([0; 64]));
    let mut into = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: the struct consists of integers and pointers, for which zero is a valid value.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut into;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: all pointers in `message` are valid during the call. If the descriptor is not that of a socket,
    // the call fails.
    let count = unsafe { libc::recvmsg(descriptor, &raw mut message, libc::MSG_PEEK | libc::MSG_DONTWAIT) };
    if count == -1 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
    }
    // SAFETY: the kernel has initialised the header.
    let first = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() };
    let is_time =
        |it: &&libc::cmsghdr| (it.cmsg_level, it.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS);
    let Some(first) = first.filter(is_time) else { return Ok(None) };
    // SAFETY: the data of this control message is a `timespec`.
    let received: libc::timespec =
        unsafe { ptr::read_unaligned(libc::CMSG_DATA(ptr::from_ref(first)).cast()) };
    Ok(WallClock::shared().to_monotonic(to_duration(received), Clocks::read()))
}

/// Returns a time on CLOCK_MONOTONIC before which the kernel has received all data on this TCP connection, accurate
/// to three of the kernel's ticks. It is not too early, because a request must not seem older than the one before it.
/// If no data has arrived, this is the time at which the connection was established; if the descriptor is not that of
/// a TCP socket, the current time.
#[must_use]
pub fn last_received(descriptor: RawFd) -> Duration {
    loop {
        let now = clock(libc::CLOCK_MONOTONIC_COARSE);
        let millis_ago = tcp_info(descriptor).map_or(0, |info| info.tcpi_last_data_recv);
        // If the clock has advanced, `millis_ago` may count from a later time than `now`: try again.
        if clock(libc::CLOCK_MONOTONIC_COARSE) == now {
            let ticks = 2 * tick();
            let latest = now.saturating_sub(Duration::from_millis(millis_ago.into())) + ticks;
            return latest.min(clock(libc::CLOCK_MONOTONIC));
        }
    }
}

/// Length of the kernel's tick.
fn tick() -> Duration {
    // SAFETY: the struct consists of integers, for which zero is a valid value.
    let mut tick: libc::timespec = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes one `timespec`. With this clock, the call does not fail.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut tick) };
    to_duration(tick)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::*;

    /// Three of the kernel's ticks, which take at most 10 ms each.
    const TICKS: Duration = Duration::from_millis(30);

    #[test]
    fn time_of_the_last_data_does_not_change_until_there_is_more() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let mut client = TcpStream::connect(address).expect("it is accepted");
        let (server, _) = listener.accept().expect("a connection");
        let received = || last_received(server.as_raw_fd());
        let opened = received();
        await_time(opened + 5 * TICKS);
        assert!(received().abs_diff(opened) <= TICKS, "no data has arrived");

        client.write_all(b"xy").expect("there is room");
        while received().abs_diff(opened) <= TICKS {
            std::thread::yield_now();
        }
        let sent = received();
        await_time(sent + 5 * TICKS);
        let mut byte = [0];
        (&server).read_exact(&mut byte).expect("a byte");
        assert!(received().abs_diff(sent) <= TICKS, "reading data does not change the time");
        (&server).write_all(&byte).expect("there is room");
        client.read_exact(&mut byte).expect("a byte");
        assert!(received().abs_diff(sent) <= TICKS, "an acknowledgement is not data");
    }

    #[test]
    fn time_of_the_next_byte_is_exact() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        record_receive_times(&listener).expect("a TCP socket");
        let address = listener.local_addr().expect("an address");
        let connect = || {
            let client = TcpStream::connect(address).expect("it is accepted");
            (client, listener.accept().expect("a connection").0)
        };
        // The kernel begins to record times a moment after the first socket asks for them.
        let is_recorded = || {
            let (mut client, server) = connect();
            client.write_all(b"x").expect("there is room");
            while !crate::has_unread_bytes(server.as_raw_fd()) {
                std::thread::yield_now();
            }
            next_byte_received(server.as_raw_fd()).expect("a connection").is_some()
        };
        while !is_recorded() {}
        let pairs = [connect(), connect(), connect()];
        let received = |at: usize| next_byte_received(pairs[at].1.as_raw_fd()).expect("a connection");
        assert_eq!(received(0), None, "no byte has arrived");
        let before = clock(libc::CLOCK_MONOTONIC);
        for at in [1, 2, 0] {
            (&pairs[at].0).write_all(b"xy").expect("there is room");
        }
        while received(0).is_none() {
            std::thread::yield_now();
        }
        let times = [1, 2, 0].map(|at| received(at).expect("it has arrived"));
        assert!(
            before < times[0] && times.is_sorted() && times[2] < clock(libc::CLOCK_MONOTONIC),
            "{times:?}"
        );
        (&pairs[0].1).read_exact(&mut [0; 2]).expect("two bytes");
        assert_eq!(received(0), None, "all bytes were read");
        assert!(next_byte_received(-1).is_err());
    }

    #[test]
    fn without_a_tcp_socket_the_current_time_is_returned() {
        let before = clock(libc::CLOCK_MONOTONIC_COARSE);
        assert!(last_received(-1) >= before);
    }

    fn await_time(time: Duration) {
        while clock(libc::CLOCK_MONOTONIC_COARSE) < time {
            std::thread::yield_now();
        }
    }
}
