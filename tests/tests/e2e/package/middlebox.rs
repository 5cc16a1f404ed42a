//! An HTTP proxy that interferes with WebSocket upgrades or buffers responses.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use encke_tests::connection::take_through;
use encke_tests::relay::AcceptLoop;

/// How the proxy handles upgrade requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upgrades {
    Pass,
    /// Answers them itself, with this status.
    Answer(&'static str),
    /// Forwards the request without its `Connection` and `Upgrade` headers, which are hop-by-hop.
    Strip,
    Swallow,
}

/// Proxy that serves one request per connection and accepts connections until it is dropped.
#[derive(Debug)]
pub(super) struct Middlebox {
    pub(super) address: SocketAddr,
    passes_upgrades: Arc<AtomicBool>,
    _listener: AcceptLoop,
}

impl Middlebox {
    /// Starts a proxy in front of `server`. If it buffers, a response is forwarded only once it is complete.
    pub(super) fn new(server: SocketAddr, upgrades: Upgrades, buffers: bool) -> Self {
        let passes_upgrades = Arc::<AtomicBool>::default();
        let passes = Arc::clone(&passes_upgrades);
        let listener = AcceptLoop::start(move |client| {
            let upgrades = if passes.load(Ordering::Acquire) { Upgrades::Pass } else { upgrades };
            // Ignore I/O errors: they only end this connection.
            std::thread::spawn(move || serve(client, server, upgrades, buffers));
        });
        Self { address: listener.address, passes_upgrades, _listener: listener }
    }

    pub(super) fn pass_upgrades(&self) {
        self.passes_upgrades.store(true, Ordering::Release);
    }
}

fn serve(mut client: TcpStream, server: SocketAddr, upgrades: Upgrades, buffers: bool) -> io::Result<()> {
    let Some((head, rest)) = read_head(&mut client)? else { return Ok(()) };
    let is_upgrade = head.to_ascii_lowercase().contains("\r\nupgrade: websocket\r\n");
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
    let mut server = TcpStream::connect(server)?;
    server.write_all(head.as_bytes())?;
    server.write_all(&rest)?;
    forward(client, server, buffers && !is_upgrade)
}

/// Forwards data in both directions until either side closes.
fn forward(mut client: TcpStream, mut server: TcpStream, buffers: bool) -> io::Result<()> {
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
    if buffers {
        let mut answer = Vec::new();
        server.read_to_end(&mut answer)?;
        client.write_all(&answer)?;
    } else {
        io::copy(&mut server, &mut client)?;
    }
    client.shutdown(Shutdown::Both)
}

/// Reads the head of a request, and returns it with the bytes that followed it. `None` if the client closes
/// first.
fn read_head(client: &mut TcpStream) -> io::Result<Option<(String, Vec<u8>)>> {
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(head) = take_through(&mut received, b"\r\n\r\n") {
            return Ok(Some((String::from_utf8_lossy(&head).into_owned(), received)));
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
