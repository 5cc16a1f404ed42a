//! The admin listener, which supports only `POST /api/publish`.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::{ChannelFault, FakeChannelState, publish};

pub(super) async fn serve(stream: TcpStream, shared: &FakeChannelState) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let head = head.to_ascii_lowercase();
        if head.starts_with("get ") {
            stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await?;
            continue;
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body =
            vec![0; length.and_then(|text| text.parse().ok()).expect("a call has a content-length")];
        stream.read_exact(&mut body).await?;
        let call: Value = serde_json::from_slice(&body).expect("calls are JSON");
        assert_eq!(call["channel"], "loadgen");
        let refused = shared.fault == ChannelFault::RefusePublications;
        if !refused {
            publish(&call["data"], shared);
        }
        shared.calls.lock().expect("the mutex is not poisoned").push(head);
        let (status, body) = if refused { ("503 No", "") } else { ("200 OK", r#"{"offset":1,"epoch":"e"}"#) };
        let reply = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(reply.as_bytes()).await?;
    }
}
