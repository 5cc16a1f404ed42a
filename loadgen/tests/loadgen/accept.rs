//! Server side of the WebSocket upgrade.

use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

/// Upgrades a connection to WebSocket, and returns it with the query of its request.
pub(crate) async fn accept(stream: TcpStream) -> Result<(WebSocketStream<TcpStream>, String), Error> {
    let mut query = String::new();
    #[expect(clippy::result_large_err, reason = "the signature is that of the library's callback")]
    let read_query = |request: &Request, response: Response| {
        query = request.uri().query().unwrap_or_default().to_owned();
        Ok(response)
    };
    let socket = accept_hdr_async(stream, read_query).await?;
    Ok((socket, query))
}
