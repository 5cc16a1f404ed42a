use std::io::{ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::time::Duration;

use encke_timeouts::clock::monotonic_now;

/// A socket with a deadline. Reads and writes fail after the deadline, even if data arrives byte by byte.
#[derive(Debug)]
pub(super) struct DeadlineStream {
    socket: TcpStream,
    /// Deadline, on the clock of [`monotonic_now`].
    until: Duration,
}

impl DeadlineStream {
    pub(super) fn new(socket: TcpStream, until: Duration) -> Self {
        Self { socket, until }
    }

    /// Returns how long the next call may block.
    fn remaining(&self) -> Result<Option<Duration>> {
        let left = self.until.saturating_sub(monotonic_now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

/// Maps the operating system's error for a socket timeout to [`ErrorKind::TimedOut`].
fn timed_out<T>(result: Result<T>) -> Result<T> {
    result.map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
        _ => error,
    })
}

impl Read for DeadlineStream {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.socket.set_read_timeout(self.remaining()?)?;
        timed_out(self.socket.read(buffer))
    }
}

impl Write for DeadlineStream {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.socket.set_write_timeout(self.remaining()?)?;
        timed_out(self.socket.write(bytes))
    }

    fn flush(&mut self) -> Result<()> {
        self.socket.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn silent_peer_times_out() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it listens");
        let until = monotonic_now() + Duration::from_millis(20);
        let mut silent = DeadlineStream::new(TcpStream::connect(address).expect("it listens"), until);
        let error = silent.read(&mut [0; 8]).expect_err("the peer is silent");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(monotonic_now() >= until, "not before");
        let error = silent.write(b"late").expect_err("the deadline has passed");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
