use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use super::is_for_us;

/// How long to wait for a supervisor that does not read what it is told.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Whoever started the process and wants to be told how it does. Without one, nothing is told.
#[derive(Clone, Debug, Default)]
pub struct Supervisor {
    /// `NOTIFY_SOCKET`: a path, or a name of Linux's own ("abstract") with `@` for its first byte.
    socket: Option<OsString>,
    watchdog: Option<Duration>,
}

impl Supervisor {
    /// As the environment has it.
    #[must_use]
    pub fn from_environment() -> Self {
        let text = |name| env::var(name).ok();
        Self::new(
            env::var_os("NOTIFY_SOCKET"),
            text("WATCHDOG_USEC").filter(|_| is_for_us(text("WATCHDOG_PID").as_deref())).as_deref(),
        )
    }

    /// `watchdog_micros` is `WATCHDOG_USEC`; what is no number above zero is none.
    #[must_use]
    pub fn new(socket: Option<OsString>, watchdog_micros: Option<&str>) -> Self {
        let micros =
            watchdog_micros.and_then(|micros| micros.parse().ok()).filter(|&micros: &u64| micros > 0);
        Self {
            socket: socket.filter(|socket| !socket.is_empty()),
            watchdog: micros.map(Duration::from_micros),
        }
    }

    /// How often it must hear that the process is well. When it does not, it ends the process, and starts it again.
    #[must_use]
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog.filter(|_| self.socket.is_some())
    }

    /// The server serves: for the first time, or again after [`Supervisor::reloading`].
    pub fn ready(&self) {
        self.tell("READY=1");
    }

    /// What can be reloaded is being reloaded. The time is that of the machine's monotonic clock: systemd compares it with the time
    /// at which it asked.
    pub fn reloading(&self, monotonic: Duration) {
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic.as_micros()));
    }

    /// The server is about to end.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// The process is well. It may wait, but blocks no thread; it needs a runtime of tokio.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) async fn alive(&self) -> io::Result<()> {
        let Some(socket) = self.connect()? else { return Ok(()) };
        socket.set_nonblocking(true)?;
        tokio::net::UnixDatagram::from_std(socket)?.send(b"WATCHDOG=1").await.map(drop)
    }

    fn tell(&self, state: &str) {
        let told = self.connect().and_then(|socket| {
            let Some(socket) = socket else { return Ok(()) };
            socket.set_write_timeout(Some(SEND_TIMEOUT))?;
            socket.send(state.as_bytes()).map(drop)
        });
        if let Err(error) = told {
            tracing::warn!(%error, state, "the supervisor (NOTIFY_SOCKET) cannot be told");
        }
    }

    /// Anew each time: a supervisor that was started again has another socket of the same name.
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
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "neither a path from the root nor `@` and a name",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).expect("something was said");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[test]
    fn a_supervisor_is_told_by_path_and_by_abstract_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let name = format!("encke-test-{}", std::process::id());
        let by_name = SocketAddr::from_abstract_name(&name).expect("it is short");
        for (socket, told) in [
            (path.clone().into_os_string(), UnixDatagram::bind(&path)),
            (format!("@{name}").into(), UnixDatagram::bind_addr(&by_name)),
        ] {
            let told = told.expect("nobody has it");
            let supervisor = Supervisor::new(Some(socket), None);
            supervisor.ready();
            assert_eq!(heard(&told), "READY=1");
            supervisor.reloading(Duration::from_millis(12));
            assert_eq!(heard(&told), "RELOADING=1\nMONOTONIC_USEC=12000");
            supervisor.stopping();
            assert_eq!(heard(&told), "STOPPING=1");
        }
    }

    #[test]
    fn what_cannot_be_reached_is_survived() {
        for socket in [None, Some(""), Some("relative"), Some("/nowhere/at/all"), Some("@")] {
            Supervisor::new(socket.map(OsString::from), None).ready();
        }
    }

    #[test]
    fn a_watchdog_needs_a_time_and_an_ear() {
        let socket = || Some(OsString::from("/run/systemd/notify"));
        assert_eq!(Supervisor::new(socket(), Some("30000000")).watchdog(), Some(Duration::from_secs(30)));
        assert_eq!(Supervisor::new(None, Some("30000000")).watchdog(), None);
        for no_time in [None, Some("0"), Some(""), Some("-1"), Some("soon")] {
            assert_eq!(Supervisor::new(socket(), no_time).watchdog(), None);
        }
    }
}
