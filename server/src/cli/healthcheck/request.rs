use std::error::Error;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{io, thread};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Time limit for the whole check, including connecting.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum length of a response's body. A health response is a single line; a longer response comes from
/// another program.
const MAX_BODY_BYTES: usize = 16 * 1024;

type Response = Result<(StatusCode, Bytes), Box<dyn Error + Send + Sync>>;

/// Sends a GET request for this path and returns the status and the body of the response.
///
/// The request is sent by a thread, because there is no wheel, and therefore no timeout for tasks. The thread
/// ends with the process.
pub(super) fn get(address: SocketAddr, path: &'static str, is_tls: bool) -> Response {
    let (sender, response) = mpsc::channel();
    thread::Builder::new().spawn(move || sender.send(connect(address, path, is_tls)))?;
    response.recv_timeout(TIMEOUT).map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

fn connect(address: SocketAddr, path: &str, is_tls: bool) -> Response {
    tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(async {
        let socket = TcpStream::connect(address).await?;
        if is_tls {
            // The certificate is not verified: the check connects by the address in the configuration, which no
            // certificate names, and sends no secret.
            let connector = TlsConnector::from(Arc::new(encke_tls::unverified()));
            let name = ServerName::IpAddress(address.ip().into());
            exchange(connector.connect(name, socket).await?, address, path).await
        } else {
            exchange(socket, address, path).await
        }
    })
}

async fn exchange(
    socket: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    host: SocketAddr,
    path: &str,
) -> Response {
    let (mut client, connection) = http1::handshake(TokioIo::new(socket)).await?;
    tokio::spawn(connection);
    let request = Request::get(path).header(HOST, host.to_string()).body(Empty::<Bytes>::new())?;
    let (head, body) = client.send_request(request).await?.into_parts();
    Ok((head.status, Limited::new(body, MAX_BODY_BYTES).collect().await?.to_bytes()))
}

#[cfg(test)]
mod tests {
    use futures_util::future::join;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn long_and_invalid_responses_are_errors() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("it can be created");
        let response = |bytes: usize| format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(bytes));
        for (text, is_accepted) in [
            (response(MAX_BODY_BYTES), true),
            (response(MAX_BODY_BYTES + 1), false),
            ("HTTP/1.1 200 OK\r\ncontent".to_owned(), false),
            ("SSH-2.0-server\r\n".to_owned(), false),
        ] {
            let (socket, mut server) = tokio::io::duplex(2 * MAX_BODY_BYTES);
            let host = "127.0.0.1:8001".parse().expect("it is an address");
            let serve = async {
                server.read_buf(&mut Vec::new()).await?;
                server.write_all(text.as_bytes()).await?;
                server.shutdown().await
            };
            let (response, _) = runtime.block_on(join(exchange(socket, host, "/healthz"), serve));
            assert_eq!(response.is_ok(), is_accepted, "{text:.40}");
        }
    }
}
