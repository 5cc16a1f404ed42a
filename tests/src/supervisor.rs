//! A stand-in for systemd's side of the service notification protocol.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use tempfile::TempDir;

use crate::waiting::{TIMEOUT, eventually};

/// How long one read blocks.
const READ_TIMEOUT: Duration = Duration::from_millis(5);

/// Receives notifications sent to `NOTIFY_SOCKET`.
#[derive(Debug)]
pub struct FakeSupervisor {
    socket: UnixDatagram,
    /// Value of `NOTIFY_SOCKET`.
    pub name: OsString,
    _folder: TempDir,
}

impl FakeSupervisor {
    /// Listens on a socket in the file system.
    ///
    /// # Panics
    /// Panics if the socket cannot be created.
    #[must_use]
    pub fn on_path() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory can be created");
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("the directory is new");
        Self::over(socket, path.into_os_string(), folder)
    }

    /// Listens on a socket in the abstract namespace.
    ///
    /// # Panics
    /// Panics if the name is taken.
    #[must_use]
    pub fn on_abstract_name() -> Self {
        // The path of a temporary directory is a unique name.
        let folder = tempfile::tempdir().expect("a temporary directory can be created");
        let name = folder.path().display().to_string();
        let address = SocketAddr::from_abstract_name(&name).expect("the name is short enough");
        let socket = UnixDatagram::bind_addr(&address).expect("the name is unique");
        Self::over(socket, format!("@{name}").into(), folder)
    }

    fn over(socket: UnixDatagram, name: OsString, folder: TempDir) -> Self {
        socket.set_read_timeout(Some(READ_TIMEOUT)).expect("the socket timeout can be set");
        Self { socket, name, _folder: folder }
    }

    /// Returns the next notification, if one has arrived.
    ///
    /// # Panics
    /// Panics if the socket returns an error.
    pub fn try_next(&self) -> Option<String> {
        let mut buffer = [0; 256];
        match self.socket.recv(&mut buffer) {
            Ok(length) => Some(String::from_utf8_lossy(&buffer[..length]).into_owned()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits for the next notification.
    ///
    /// # Panics
    /// Panics if none arrives.
    #[track_caller]
    pub fn next(&self) -> String {
        eventually(format!("a notification within {TIMEOUT:?}"), || self.try_next())
    }
}
