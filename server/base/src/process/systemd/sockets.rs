use std::env::{self, VarError};
use std::io;
use std::net::{SocketAddr, TcpListener};

use listenfd::ListenFd;
use socket2::SockRef;

use super::variables::applies_to_us;

/// Upper bound on inherited sockets. The server has two listeners.
const MAX_SOCKETS: usize = 16;

/// Name that systemd gives to unnamed sockets.
const UNNAMED: &str = "unknown";

/// Listening sockets that were opened before the process started and stay open after it exits. Clients that
/// connect in between wait in the kernel's queue.
#[derive(Debug, Default)]
pub struct InheritedSockets(Vec<InheritedSocket>);

#[derive(Debug)]
pub struct InheritedSocket {
    /// `FileDescriptorName=` of the socket unit.
    pub name: String,
    pub address: SocketAddr,
    pub socket: TcpListener,
}

/// Why the inherited sockets cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InheritError {
    /// The number of sockets is invalid.
    #[error("LISTEN_FDS is `{0}`, not a number from 0 to {MAX_SOCKETS}")]
    Count(String),
    /// The number of names differs from the number of sockets.
    #[error("LISTEN_FDNAMES names {names} sockets, but LISTEN_FDS is {sockets}")]
    Names {
        /// Number of names in `LISTEN_FDNAMES`.
        names: usize,
        /// Value of `LISTEN_FDS`.
        sockets: usize,
    },
    /// The descriptor is not a listening TCP socket.
    #[error("the socket `{name}`, number {number} of LISTEN_FDS, cannot be used: {error}")]
    Unusable {
        name: String,
        /// Number of the socket, counted from 1.
        number: usize,
        error: io::Error,
    },
}

impl InheritedSockets {
    /// Takes the sockets passed in the environment. A second call finds none. Removes two environment
    /// variables, so no other thread may access the environment at the same time.
    ///
    /// # Errors
    /// [`InheritError`]; the sockets are then closed.
    pub fn take() -> Result<Self, InheritError> {
        let Some(count) = variable("LISTEN_FDS").filter(|_| applies_to_us(variable("LISTEN_PID").as_deref()))
        else {
            return Ok(Self::default());
        };
        let count = count
            .parse()
            .ok()
            .filter(|&count: &usize| count <= MAX_SOCKETS)
            .ok_or(InheritError::Count(count))?;
        let names = names(variable("LISTEN_FDNAMES"), count)?;
        let mut descriptors = ListenFd::from_env();
        let sockets = names.into_iter().enumerate().map(|(index, name)| {
            let socket = descriptors.take_tcp_listener(index).and_then(check_listening);
            socket
                .and_then(|socket| Ok((socket.local_addr()?, socket)))
                .map(|(address, socket)| InheritedSocket { name: name.clone(), address, socket })
                .map_err(|error| InheritError::Unusable { name, number: index + 1, error })
        });
        sockets.collect::<Result<_, _>>().map(Self)
    }

    /// Takes the first socket that matches.
    pub fn take_first(&mut self, is_wanted: impl FnMut(&InheritedSocket) -> bool) -> Option<InheritedSocket> {
        let index = self.0.iter().position(is_wanted)?;
        Some(self.0.remove(index))
    }
}

/// Rejects a socket that is connected or is not listening.
fn check_listening(socket: Option<TcpListener>) -> io::Result<TcpListener> {
    let socket = socket.ok_or_else(|| io::Error::other("it was already taken"))?;
    if SockRef::from(&socket).is_listener()? {
        Ok(socket)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not listening"))
    }
}

fn names(names: Option<String>, sockets: usize) -> Result<Vec<String>, InheritError> {
    let Some(names) = names.filter(|_| sockets > 0) else {
        return Ok(vec![UNNAMED.to_owned(); sockets]);
    };
    let names: Vec<_> = names.split(':').map(ToOwned::to_owned).collect();
    if names.len() == sockets { Ok(names) } else { Err(InheritError::Names { names: names.len(), sockets }) }
}

fn variable(name: &str) -> Option<String> {
    match env::var(name) {
        Ok(value) => Some(value),
        Err(VarError::NotUnicode(value)) => Some(value.to_string_lossy().into_owned()),
        Err(VarError::NotPresent) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_socket_has_a_name() {
        assert_eq!(names(None, 2).expect("no names are needed"), ["unknown", "unknown"]);
        assert_eq!(names(Some("admin:public".into()), 2).expect("one name each"), ["admin", "public"]);
        assert_eq!(names(Some(":public".into()), 2).expect("one is empty"), ["", "public"]);
        assert!(names(Some(String::new()), 0).expect("no sockets").is_empty());
        let error = names(Some("public".into()), 2).expect_err("one name is missing");
        assert_eq!(error.to_string(), "LISTEN_FDNAMES names 1 sockets, but LISTEN_FDS is 2");
    }
}
