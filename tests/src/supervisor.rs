//! What systemd is for a service that tells it how it does.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use tempfile::TempDir;

use crate::waiting::{TIMEOUT, eventually};

/// How long one read blocks.
const READ: Duration = Duration::from_millis(5);

/// Listens to what is said to `NOTIFY_SOCKET`.
#[derive(Debug)]
pub struct FakeSupervisor {
    socket: UnixDatagram,
    /// The value of `NOTIFY_SOCKET`.
    pub name: OsString,
    _folder: TempDir,
}

impl FakeSupervisor {
    /// With a socket in a folder.
    ///
    /// # Panics
    /// When there is no room for it.
    #[must_use]
    pub fn on_path() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("the folder is new");
        Self::over(socket, path.into_os_string(), folder)
    }

    /// With a socket that is in no folder, but has a name of its own ("abstract").
    ///
    /// # Panics
    /// When its name is taken.
    #[must_use]
    pub fn on_abstract_name() -> Self {
        // A name that nobody else has.
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().display().to_string();
        let address = SocketAddr::from_abstract_name(&name).expect("it is short");
        let socket = UnixDatagram::bind_addr(&address).expect("nobody else has it");
        Self::over(socket, format!("@{name}").into(), folder)
    }

    fn over(socket: UnixDatagram, name: OsString, folder: TempDir) -> Self {
        socket.set_read_timeout(Some(READ)).expect("a socket takes a timeout");
        Self { socket, name, _folder: folder }
    }

    /// What was said next, if anything was.
    ///
    /// # Panics
    /// When the socket is broken.
    pub fn heard(&self) -> Option<String> {
        let mut buffer = [0; 256];
        match self.socket.recv(&mut buffer) {
            Ok(length) => Some(String::from_utf8_lossy(&buffer[..length]).into_owned()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits for what is said next.
    ///
    /// # Panics
    /// When nothing is.
    #[track_caller]
    pub fn next(&self) -> String {
        eventually(format!("a notification within {TIMEOUT:?}"), || self.heard())
    }
}
