//! A stand-in for systemd's side of the service notification protocol.

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tempfile::TempDir;

use crate::waiting::eventually;

/// Receives notifications sent to `NOTIFY_SOCKET`.
#[derive(Debug)]
pub struct FakeSupervisor {
    socket: UnixDatagram,
    pub name: OsString,
    _folder: TempDir,
}

impl FakeSupervisor {
    pub fn on_path() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory can be created");
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("the directory is new");
        Self::over(socket, path.into_os_string(), folder)
    }

    /// Listens on a socket in the abstract namespace.
    pub fn on_abstract_name() -> Self {
        // The path of a temporary directory is a unique name.
        let folder = tempfile::tempdir().expect("a temporary directory can be created");
        let name = folder.path().display().to_string();
        let address = SocketAddr::from_abstract_name(&name).expect("the name is short enough");
        let socket = UnixDatagram::bind_addr(&address).expect("the name is unique");
        Self::over(socket, format!("@{name}").into(), folder)
    }

    fn over(socket: UnixDatagram, name: OsString, folder: TempDir) -> Self {
        socket.set_nonblocking(true).expect("the socket accepts the option");
        Self { socket, name, _folder: folder }
    }

    pub fn try_next(&self) -> Option<String> {
        let mut buffer = [0; 256];
        let length = self.socket.recv(&mut buffer).ok()?;
        Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
    }

    #[track_caller]
    pub fn next(&self) -> String {
        eventually("a notification", || self.try_next())
    }
}
