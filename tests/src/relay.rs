//! A TCP relay in front of the server that can break connections.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::port::listen;

/// Fault applied to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Intact,
    /// Closed in both directions after this many bytes from the server.
    Cut(usize),
    /// After this many bytes from the server, nothing passes in either direction, and neither side is
    /// notified.
    Silent(usize),
}

#[derive(Debug)]
pub struct Relay {
    pub address: SocketAddr,
    server: Arc<Mutex<SocketAddr>>,
    _listener: AcceptLoop,
    connections: Arc<Mutex<Vec<RelayedConnection>>>,
}

/// Relayed connection, which may have ended in the meantime.
#[derive(Debug)]
struct RelayedConnection {
    client: TcpStream,
    server: TcpStream,
    silent: Arc<AtomicBool>,
}

impl Relay {
    /// Starts a relay to `server`. `fate` is called for each connection; until it returns, that connection
    /// and all later ones wait.
    pub fn new(server: SocketAddr, mut fate: impl FnMut() -> Fate + Send + 'static) -> Self {
        let server = Arc::new(Mutex::new(server));
        let connections = Arc::<Mutex<Vec<_>>>::default();
        let (target, joined) = (Arc::clone(&server), Arc::clone(&connections));
        let listener = AcceptLoop::start(move |client| {
            let fate = fate();
            let server = *target.lock();
            if let Ok(server) = TcpStream::connect(server) {
                joined.lock().push(relay_connection(client, server, fate));
            }
        });
        Self { address: listener.address, server, _listener: listener, connections }
    }

    pub fn redirect_to(&self, server: SocketAddr) {
        *self.server.lock() = server;
    }

    /// Closes all current connections in both directions. Returns the number of connections accepted since
    /// the last call, including those that had already ended.
    pub fn cut_all(&self) -> usize {
        let joined = std::mem::take(&mut *self.connections.lock());
        for stream in joined.iter().flat_map(|joined| [&joined.client, &joined.server]) {
            // The connection may have ended already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        joined.len()
    }

    /// Stops relaying on all current connections without notifying either side.
    pub fn silence_all(&self) {
        for joined in &*self.connections.lock() {
            joined.silent.store(true, Ordering::Release);
        }
    }
}

/// Listener on a free loopback port that accepts connections until it is dropped.
#[derive(Debug)]
pub struct AcceptLoop {
    pub address: SocketAddr,
    dropped: Arc<AtomicBool>,
}

impl AcceptLoop {
    /// Passes each connection to `serve`, which delays all later ones until it returns.
    pub fn start(mut serve: impl FnMut(TcpStream) + Send + 'static) -> Self {
        let (listener, address) = listen();
        let dropped = Arc::<AtomicBool>::default();
        let accepting = Arc::clone(&dropped);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if accepting.load(Ordering::Acquire) {
                    return;
                }
                serve(client);
            }
        });
        Self { address, dropped }
    }
}

impl Drop for AcceptLoop {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::Release);
        // Wakes the thread that waits in `accept`.
        let _ = TcpStream::connect(self.address);
    }
}

/// Relays a connection with two threads, which end with it.
fn relay_connection(client: TcpStream, server: TcpStream, fate: Fate) -> RelayedConnection {
    let silent = Arc::new(AtomicBool::new(false));
    let clone = |stream: &TcpStream| stream.try_clone().expect("the stream can be duplicated");
    for stream in [&client, &server] {
        stream.set_nodelay(true).expect("the socket option can be set");
    }
    let joined =
        RelayedConnection { client: clone(&client), server: clone(&server), silent: Arc::clone(&silent) };
    let (from, to, quiet) = (clone(&client), clone(&server), Arc::clone(&silent));
    std::thread::spawn(move || relay_bytes(from, to, Fate::Intact, &quiet));
    std::thread::spawn(move || relay_bytes(server, client, fate, &silent));
    joined
}

/// Copies bytes until either side closes, or until the fault takes effect.
fn relay_bytes(mut from: TcpStream, mut to: TcpStream, fate: Fate, silent: &AtomicBool) {
    let mut passed = 0;
    let mut buffer = [0; 4096];
    loop {
        let bytes = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => &buffer[..bytes],
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        if silent.load(Ordering::Acquire) {
            continue;
        }
        let end = fate.fault_position(passed, bytes.len());
        passed += bytes.len();
        if to.write_all(&bytes[..end.unwrap_or(bytes.len())]).is_err() {
            break;
        }
        match fate {
            _ if end.is_none() => {}
            Fate::Silent(_) => silent.store(true, Ordering::Release),
            Fate::Intact | Fate::Cut(_) => {
                let _ = from.shutdown(Shutdown::Both);
                let _ = to.shutdown(Shutdown::Both);
                return;
            }
        }
    }
    if !silent.load(Ordering::Acquire) {
        let _ = to.shutdown(Shutdown::Write);
    }
}

impl Fate {
    /// Returns how many of `bytes` to copy before the fault takes effect, after `passed` bytes have been
    /// copied. `None`: all of them, without a fault.
    fn fault_position(self, passed: usize, bytes: usize) -> Option<usize> {
        match self {
            Self::Intact => None,
            Self::Cut(after) | Self::Silent(after) => Some(after - passed).filter(|left| *left <= bytes),
        }
    }
}
