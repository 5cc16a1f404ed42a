//! A relay before the server, whose connections break where it pleases.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing is done to it.
    Whole,
    /// After so many bytes from the server, both sides see its end.
    Cut(usize),
    /// Before the server says this, both sides see its end. It is to say it in one write.
    CutBefore(&'static str),
    /// After so many bytes from the server, nothing gets through any more, and neither side is told.
    Silent(usize),
}

/// Takes connections until it is dropped.
#[derive(Debug)]
pub struct Relay {
    /// Where it does.
    pub address: SocketAddr,
    server: Arc<Mutex<SocketAddr>>,
    dropped: Arc<AtomicBool>,
    joined: Arc<Mutex<Vec<Joined>>>,
}

/// A connection that may have ended meanwhile.
#[derive(Debug)]
struct Joined {
    client: TcpStream,
    server: TcpStream,
    silent: Arc<AtomicBool>,
}

impl Relay {
    /// A relay to `server`, which asks about each connection what is to become of it. Until it is told, the connection
    /// waits, and so do those that come after it.
    ///
    /// # Panics
    /// When there is no port for it.
    #[must_use]
    pub fn new(server: SocketAddr, mut fate: impl FnMut() -> Fate + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let address = listener.local_addr().expect("it is bound");
        let server = Arc::new(Mutex::new(server));
        let dropped = Arc::new(AtomicBool::new(false));
        let joined = Arc::default();
        let relay = Self {
            address,
            server: Arc::clone(&server),
            dropped: Arc::clone(&dropped),
            joined: Arc::clone(&joined),
        };
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if dropped.load(Ordering::Acquire) {
                    return;
                }
                let fate = fate();
                let server = *server.lock();
                if let Ok(server) = TcpStream::connect(server) {
                    joined.lock().push(join(client, server, fate));
                }
            }
        });
        relay
    }

    /// Where the connections go that come from now on.
    pub fn lead_to(&self, server: SocketAddr) {
        *self.server.lock() = server;
    }

    /// Ends all connections that there are: both sides see it. How many there have been since this was asked last, ended ones included.
    pub fn cut_all(&self) -> usize {
        let joined = std::mem::take(&mut *self.joined.lock());
        for stream in joined.iter().flat_map(|joined| [&joined.client, &joined.server]) {
            // It may have ended already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        joined.len()
    }

    /// Nothing gets through any more on those that there are, and neither side is told.
    pub fn silence_all(&self) {
        for joined in &*self.joined.lock() {
            joined.silent.store(true, Ordering::Release);
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::Release);
        // It waits for a connection.
        let _ = TcpStream::connect(self.address);
    }
}

/// By two threads, which end with the connection.
fn join(client: TcpStream, server: TcpStream, fate: Fate) -> Joined {
    let silent = Arc::new(AtomicBool::new(false));
    let clone = |stream: &TcpStream| stream.try_clone().expect("a descriptor is left");
    for stream in [&client, &server] {
        stream.set_nodelay(true).expect("a socket takes an option");
    }
    let joined = Joined { client: clone(&client), server: clone(&server), silent: Arc::clone(&silent) };
    let (from, to, quiet) = (clone(&client), clone(&server), Arc::clone(&silent));
    std::thread::spawn(move || pass(from, to, Fate::Whole, &quiet));
    std::thread::spawn(move || pass(server, client, fate, &silent));
    joined
}

/// Passes on what comes, up to the end of either side, or to where its fate has it.
fn pass(mut from: TcpStream, mut to: TcpStream, fate: Fate, silent: &AtomicBool) {
    let mut passed = 0;
    let mut buffer = [0; 4096];
    loop {
        let came = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(came) => &buffer[..came],
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        if silent.load(Ordering::Acquire) {
            continue;
        }
        let end = fate.end(passed, came);
        passed += came.len();
        if to.write_all(&came[..end.unwrap_or(came.len())]).is_err() {
            break;
        }
        match fate {
            _ if end.is_none() => {}
            Fate::Silent(_) => silent.store(true, Ordering::Release),
            Fate::Whole | Fate::Cut(_) | Fate::CutBefore(_) => {
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
    /// How much of this may pass, if not all, when so many bytes have.
    fn end(self, passed: usize, came: &[u8]) -> Option<usize> {
        match self {
            Self::Whole => None,
            Self::Cut(after) | Self::Silent(after) => Some(after - passed).filter(|left| *left <= came.len()),
            Self::CutBefore(text) => came.windows(text.len()).position(|bytes| bytes == text.as_bytes()),
        }
    }
}
