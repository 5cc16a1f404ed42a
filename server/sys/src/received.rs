#![expect(unsafe_code, reason = "the call takes a pointer")]

use std::mem;
use std::os::fd::RawFd;
use std::time::Duration;

use crate::unacknowledged::tcp_info;

/// Returns the time at which the kernel last received data on this TCP connection, on CLOCK_MONOTONIC_COARSE.
/// If no data has arrived, returns the time at which the connection was established; if the descriptor is not
/// that of a TCP socket, the current time.
///
/// The kernel records this time in ticks, and this clock advances by the same ticks. Therefore, the result is
/// accurate to one tick, regardless of when this is called.
#[must_use]
pub fn last_received(descriptor: RawFd) -> Duration {
    loop {
        let now = coarse_now();
        let millis_ago = tcp_info(descriptor).map_or(0, |info| info.tcpi_last_data_recv);
        // If the clock has advanced, `millis_ago` may count from a later time than `now`: try again.
        if coarse_now() == now {
            return now.saturating_sub(Duration::from_millis(millis_ago.into()));
        }
    }
}

fn coarse_now() -> Duration {
    // SAFETY: the struct consists of integers, for which zero is a valid value.
    let mut now: libc::timespec = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes one `timespec`. Since Linux 2.6.32, the call does not fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
    // The clock starts at boot and is never negative.
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::*;

    /// Longest tick of the kernel.
    const TICK: Duration = Duration::from_millis(10);

    #[test]
    fn time_of_the_last_data_does_not_change_until_there_is_more() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let mut client = TcpStream::connect(address).expect("it is accepted");
        let (server, _) = listener.accept().expect("a connection");
        let received = || last_received(server.as_raw_fd());
        let opened = received();
        await_time(opened + 5 * TICK);
        assert!(received().abs_diff(opened) <= TICK, "no data has arrived");

        client.write_all(b"xy").expect("there is room");
        while received().abs_diff(opened) <= TICK {
            std::thread::yield_now();
        }
        let sent = received();
        await_time(sent + 5 * TICK);
        let mut byte = [0];
        (&server).read_exact(&mut byte).expect("a byte");
        assert!(received().abs_diff(sent) <= TICK, "reading data does not change the time");
        (&server).write_all(&byte).expect("there is room");
        client.read_exact(&mut byte).expect("a byte");
        assert!(received().abs_diff(sent) <= TICK, "an acknowledgement is not data");
    }

    #[test]
    fn without_a_tcp_socket_the_current_time_is_returned() {
        let before = coarse_now();
        assert!(last_received(-1) >= before);
    }

    fn await_time(time: Duration) {
        while coarse_now() < time {
            std::thread::yield_now();
        }
    }
}
