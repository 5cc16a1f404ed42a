use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use super::variables::applies_to_us;

/// Send timeout, in case the supervisor does not read its socket.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// The supervisor to notify of the server's state. Without a socket, nothing is sent.
#[derive(Clone, Debug, Default)]
pub struct Supervisor {
    /// `NOTIFY_SOCKET`: a path, or a Linux abstract socket name that starts with `@`.
    socket: Option<OsString>,
    watchdog: Option<Duration>,
}

impl Supervisor {
    /// Reads the settings from the environment.
    #[must_use]
    pub fn from_environment() -> Self {
        let text = |name| env::var(name).ok();
        Self::new(
            env::var_os("NOTIFY_SOCKET"),
            text("WATCHDOG_USEC").filter(|_| applies_to_us(text("WATCHDOG_PID").as_deref())).as_deref(),
        )
    }

    /// Creates a supervisor. `watchdog_micros` is the value of `WATCHDOG_USEC`; anything but a positive
    /// number disables the watchdog.
    #[must_use]
    pub fn new(socket: Option<OsString>, watchdog_micros: Option<&str>) -> Self {
        let micros =
            watchdog_micros.and_then(|micros| micros.parse().ok()).filter(|&micros: &u64| micros > 0);
        Self {
            socket: socket.filter(|socket| !socket.is_empty()),
            watchdog: micros.map(Duration::from_micros),
        }
    }

    /// Interval within which the supervisor must receive a keep-alive. Otherwise it restarts the process.
    #[must_use]
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog.filter(|_| self.socket.is_some())
    }

    /// Reports that the server is ready: at startup, and after [`Supervisor::reloading`].
    pub fn ready(&self) {
        self.send("READY=1");
    }

    /// Reports that a reload has started. `monotonic` is the time of the machine's monotonic clock; systemd
    /// compares it with the time of its reload request.
    pub fn reloading(&self, monotonic: Duration) {
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic.as_micros()));
    }

    /// Reports that the server is about to shut down.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Sends a watchdog keep-alive. Waits asynchronously if necessary; requires a Tokio runtime.
    ///
    /// # Errors
    /// I/O errors of the socket.
    pub async fn keep_alive(&self) -> io::Result<()> {
        let Some(socket) = self.connect()? else { return Ok(()) };
        socket.set_nonblocking(true)?;
        tokio::net::UnixDatagram::from_std(socket)?.send(b"WATCHDOG=1").await.map(drop)
    }

    fn send(&self, state: &str) {
        let sent = self.connect().and_then(|socket| {
            let Some(socket) = socket else { return Ok(()) };
            socket.set_write_timeout(Some(SEND_TIMEOUT))?;
            socket.send(state.as_bytes()).map(drop)
        });
        if let Err(error) = sent {
            tracing::warn!(%error, state, "cannot notify the supervisor (NOTIFY_SOCKET)");
        }
    }

    /// Opens a new socket each time, because a restarted supervisor has a new socket with the same name.
    fn connect(&self) -> io::Result<Option<UnixDatagram>> {
        let Some(name) = &self.socket else { return Ok(None) };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address(name)?)?;
        Ok(Some(socket))
    }
}

fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(name),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "neither an absolute path nor `@` and a name")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).expect("a notification");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[test]
    fn notifications_reach_path_and_abstract_sockets() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let name = format!("encke-test-{}", std::process::id());
        let by_name = SocketAddr::from_abstract_name(&name).expect("a short name");
        for (socket, receiver) in [
            (path.clone().into_os_string(), UnixDatagram::bind(&path)),
            (format!("@{name}").into(), UnixDatagram::bind_addr(&by_name)),
        ] {
            let receiver = receiver.expect("the name is unused");
            let supervisor = Supervisor::new(Some(socket), None);
            supervisor.ready();
            assert_eq!(receive(&receiver), "READY=1");
            supervisor.reloading(Duration::from_millis(12));
            assert_eq!(receive(&receiver), "RELOADING=1\nMONOTONIC_USEC=12000");
            supervisor.stopping();
            assert_eq!(receive(&receiver), "STOPPING=1");
        }
    }

    #[test]
    fn an_unreachable_supervisor_is_tolerated() {
        for socket in [None, Some(""), Some("relative"), Some("/nowhere/at/all"), Some("@")] {
            Supervisor::new(socket.map(OsString::from), None).ready();
        }
    }

    #[test]
    fn a_watchdog_needs_an_interval_and_a_socket() {
        let socket = || Some(OsString::from("/run/systemd/notify"));
        assert_eq!(Supervisor::new(socket(), Some("30000000")).watchdog(), Some(Duration::from_secs(30)));
        assert_eq!(Supervisor::new(None, Some("30000000")).watchdog(), None);
        for no_time in [None, Some("0"), Some(""), Some("-1"), Some("soon")] {
            assert_eq!(Supervisor::new(socket(), no_time).watchdog(), None);
        }
    }
}
