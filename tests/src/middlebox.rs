//! An HTTP proxy that interferes with WebSocket upgrades or buffers responses.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How the proxy handles upgrade requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upgrades {
    /// Forwards them.
    Pass,
    /// Answers them itself, with this status.
    Answer(&'static str),
    /// Forwards the request without its `Connection` and `Upgrade` headers, which are hop-by-hop.
    Strip,
    /// Never answers.
    Swallow,
}

/// Proxy that serves one request per connection and accepts connections until it is dropped.
#[derive(Debug)]
pub struct Middlebox {
    /// Address that clients connect to.
    pub address: SocketAddr,
    passes_upgrades: Arc<AtomicBool>,
    dropped: Arc<AtomicBool>,
}

#[derive(Clone, Debug)]
struct MiddleboxConfig {
    server: SocketAddr,
    upgrades: Upgrades,
    passes_upgrades: Arc<AtomicBool>,
    /// Whether a response is forwarded only once it is complete.
    buffers_responses: bool,
}

impl Middlebox {
    /// Starts a proxy in front of `server`.
    ///
    /// # Panics
    /// Panics if no port is free.
    #[must_use]
    pub fn new(server: SocketAddr, upgrades: Upgrades, buffers: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("the listener is bound");
        let (dropped, passes_upgrades) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let config = MiddleboxConfig {
            server,
            upgrades,
            passes_upgrades: Arc::clone(&passes_upgrades),
            buffers_responses: buffers,
        };
        let middlebox = Self { address, passes_upgrades, dropped: Arc::clone(&dropped) };
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if dropped.load(Ordering::Acquire) {
                    return;
                }
                let config = config.clone();
                // Ignore I/O errors: they only end this connection.
                std::thread::spawn(move || config.serve(client));
            }
        });
        middlebox
    }

    /// Forwards all later upgrade requests.
    pub fn pass_upgrades(&self) {
        self.passes_upgrades.store(true, Ordering::Release);
    }
}

impl Drop for Middlebox {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::Release);
        // Wake the thread that is blocked in `accept`.
        let _ = TcpStream::connect(self.address);
    }
}

impl MiddleboxConfig {
    fn serve(&self, mut client: TcpStream) -> std::io::Result<()> {
        let Some((head, rest)) = read_head(&mut client)? else { return Ok(()) };
        let is_upgrade = head.to_ascii_lowercase().contains("\r\nupgrade: websocket\r\n");
        let upgrades =
            if self.passes_upgrades.load(Ordering::Acquire) { Upgrades::Pass } else { self.upgrades };
        let head = match upgrades {
            Upgrades::Pass if is_upgrade => head,
            Upgrades::Answer(status) if is_upgrade => {
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                return client.write_all(answer.as_bytes());
            }
            Upgrades::Swallow if is_upgrade => {
                client.read_to_end(&mut Vec::new())?;
                return Ok(());
            }
            _ => with_connection_close(&head),
        };
        let mut server = TcpStream::connect(self.server)?;
        server.write_all(head.as_bytes())?;
        server.write_all(&rest)?;
        self.pass(client, server, is_upgrade)
    }

    /// Forwards data in both directions until either side closes.
    fn pass(&self, mut client: TcpStream, mut server: TcpStream, is_upgrade: bool) -> std::io::Result<()> {
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
        }
        let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
        if self.buffers_responses && !is_upgrade {
            let mut answer = Vec::new();
            server.read_to_end(&mut answer)?;
            client.write_all(&answer)?;
        } else {
            std::io::copy(&mut server, &mut client)?;
        }
        client.shutdown(Shutdown::Both)
    }
}

/// Reads the head of a request, and returns it with the bytes that followed it. `None` if the client closes
/// first.
fn read_head(client: &mut TcpStream) -> std::io::Result<Option<(String, Vec<u8>)>> {
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let rest = received.split_off(end + 4);
            return Ok(Some((String::from_utf8_lossy(&received).into_owned(), rest)));
        }
        match client.read(&mut buffer)? {
            0 => return Ok(None),
            read => received.extend(&buffer[..read]),
        }
    }
}

/// Replaces the connection headers of a request with `Connection: close`, which also drops an upgrade.
fn with_connection_close(head: &str) -> String {
    let is_hop_by_hop = |line: &str| {
        let line = line.to_ascii_lowercase();
        line.starts_with("connection:") || line.starts_with("upgrade:")
    };
    let lines = head.trim_end().split("\r\n").filter(|line| !is_hop_by_hop(line));
    lines.chain(["connection: close", "", ""]).collect::<Vec<_>>().join("\r\n")
}
