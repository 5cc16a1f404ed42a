use std::env::{self, VarError};
use std::io;
use std::net::{SocketAddr, TcpListener};

use listenfd::ListenFd;
use socket2::SockRef;

use super::is_for_us;

/// More than anyone has a use for: the server has two listeners.
const MOST_SOCKETS: usize = 16;

/// The name of a socket that was given none.
const UNNAMED: &str = "unknown";

/// Sockets that were open before the process began, and stay open when it ends: whoever connects meanwhile waits in the kernel.
#[derive(Debug, Default)]
pub struct InheritedSockets(Vec<InheritedSocket>);

/// One of them.
#[derive(Debug)]
pub struct InheritedSocket {
    /// `FileDescriptorName=` of a socket unit.
    pub name: String,
    /// Where clients connect to it.
    pub address: SocketAddr,
    pub(crate) socket: TcpListener,
}

/// What was handed over is of no use.
#[derive(Debug, thiserror::Error)]
pub enum InheritError {
    /// The number of sockets is none.
    #[error("LISTEN_FDS is `{0}`, which is no number of sockets from 0 to {MOST_SOCKETS}")]
    Count(String),
    /// There must be a name for each, or none at all.
    #[error("LISTEN_FDNAMES has names for {names} sockets, LISTEN_FDS says that there are {sockets}")]
    Names {
        /// Names in `LISTEN_FDNAMES`.
        names: usize,
        /// `LISTEN_FDS`.
        sockets: usize,
    },
    /// Something else than a socket of TCP on which to listen.
    #[error("the socket `{name}`, number {number} of LISTEN_FDS, cannot be listened on: {error}")]
    Unusable {
        /// Its name.
        name: String,
        /// From 1.
        number: usize,
        /// What is wrong.
        error: io::Error,
    },
}

impl InheritedSockets {
    /// Takes the sockets that the environment tells of. A second call finds none. No other thread may use the environment meanwhile:
    /// two of its variables are removed.
    ///
    /// # Errors
    /// [`InheritError`]; the sockets are closed then.
    pub fn take() -> Result<Self, InheritError> {
        let Some(count) = variable("LISTEN_FDS").filter(|_| is_for_us(variable("LISTEN_PID").as_deref()))
        else {
            return Ok(Self::default());
        };
        let count = count
            .parse()
            .ok()
            .filter(|&count: &usize| count <= MOST_SOCKETS)
            .ok_or(InheritError::Count(count))?;
        let names = names(variable("LISTEN_FDNAMES"), count)?;
        let mut descriptors = ListenFd::from_env();
        let sockets = names.into_iter().enumerate().map(|(index, name)| {
            let socket = descriptors.take_tcp_listener(index).and_then(listening);
            socket
                .and_then(|socket| Ok((socket.local_addr()?, socket)))
                .map(|(address, socket)| InheritedSocket { name: name.clone(), address, socket })
                .map_err(|error| InheritError::Unusable { name, number: index + 1, error })
        });
        sockets.collect::<Result<_, _>>().map(Self)
    }

    /// Takes the first of which this is true.
    pub(crate) fn take_first(
        &mut self,
        is_wanted: impl FnMut(&InheritedSocket) -> bool,
    ) -> Option<InheritedSocket> {
        let index = self.0.iter().position(is_wanted)?;
        Some(self.0.remove(index))
    }
}

/// One that is connected, or not yet listened on, is of no use.
fn listening(socket: Option<TcpListener>) -> io::Result<TcpListener> {
    let socket = socket.ok_or_else(|| io::Error::other("it was taken before"))?;
    if SockRef::from(&socket).is_listener()? {
        Ok(socket)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it does not listen"))
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
        assert_eq!(names(None, 2).expect("none is needed"), ["unknown", "unknown"]);
        assert_eq!(names(Some("admin:public".into()), 2).expect("one each"), ["admin", "public"]);
        assert_eq!(names(Some(":public".into()), 2).expect("one is empty"), ["", "public"]);
        assert!(names(Some(String::new()), 0).expect("there is no socket").is_empty());
        let error = names(Some("public".into()), 2).expect_err("one name is missing");
        assert_eq!(
            error.to_string(),
            "LISTEN_FDNAMES has names for 1 sockets, LISTEN_FDS says that there are 2"
        );
    }
}
