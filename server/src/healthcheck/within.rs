use std::io::{ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::time::Duration;

use encke_server::clock::monotonic_now;

/// A socket until an instant: it blocks no longer, however little comes at a time.
#[derive(Debug)]
pub(super) struct Within {
    socket: TcpStream,
    /// By [`monotonic_now`].
    until: Duration,
}

impl Within {
    pub(super) fn new(socket: TcpStream, until: Duration) -> Self {
        Self { socket, until }
    }

    /// For what the next call may block at most.
    fn left(&self) -> Result<Option<Duration>> {
        let left = self.until.saturating_sub(monotonic_now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

/// The system says that the call would block.
fn timed_out<T>(result: Result<T>) -> Result<T> {
    result.map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
        _ => error,
    })
}

impl Read for Within {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.socket.set_read_timeout(self.left()?)?;
        timed_out(self.socket.read(buffer))
    }
}

impl Write for Within {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.socket.set_write_timeout(self.left()?)?;
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
    fn silence_ends_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it listens");
        let until = monotonic_now() + Duration::from_millis(20);
        let mut silent = Within::new(TcpStream::connect(address).expect("it listens"), until);
        let error = silent.read(&mut [0; 8]).expect_err("nobody says anything");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(monotonic_now() >= until, "not before");
        let error = silent.write(b"late").expect_err("the time is over");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
