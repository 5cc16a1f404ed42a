//! A client of the admin listener.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use crate::Metrics;
use crate::server::tests_use_redis;
use crate::waiting::{TIMEOUT, until};

/// Client of the admin listener that opens a connection for each request.
#[derive(Clone, Copy, Debug)]
pub struct Admin {
    address: SocketAddr,
    key: Option<&'static str>,
}

/// Complete HTTP response.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    pub status: u16,
    head: String,
    pub body: String,
}

impl Admin {
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self { address, key: None }
    }

    /// Sends this API key with each request.
    #[must_use]
    pub fn with_key(self, key: &'static str) -> Self {
        Self { key: Some(key), ..self }
    }

    /// Returns the address of the listener.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends `GET path`.
    #[must_use]
    #[track_caller]
    pub fn get(&self, path: &str) -> HttpResponse {
        self.request("GET", path)
    }

    /// Sends `method path`.
    #[track_caller]
    pub fn request(&self, method: &str, path: &str) -> HttpResponse {
        self.request_with(method, path, &self.headers())
    }

    /// Sends `method path` with these headers (lines that end in CR LF) instead of the usual ones.
    #[track_caller]
    pub fn request_with(&self, method: &str, path: &str, headers: &str) -> HttpResponse {
        send_request(self.address, &format!("{method} {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n"))
    }

    /// Sends `POST path` with a JSON body.
    #[track_caller]
    pub fn post(&self, path: &str, body: &str) -> HttpResponse {
        self.send(path, "Content-Type: application/json\r\n", body)
    }

    /// Sends `PUT path` with a JSON body.
    #[track_caller]
    pub fn put(&self, path: &str, body: &str) -> HttpResponse {
        self.with_body("PUT", path, "Content-Type: application/json\r\n", body)
    }

    /// Sends `POST path` with a body and additional headers: lines that end in CR LF.
    #[track_caller]
    pub fn send(&self, path: &str, headers: &str, body: &str) -> HttpResponse {
        self.with_body("POST", path, headers, body)
    }

    #[track_caller]
    fn with_body(&self, method: &str, path: &str, headers: &str, body: &str) -> HttpResponse {
        let (own, length) = (self.headers(), body.len());
        let headers = format!("{own}{headers}Content-Length: {length}\r\nConnection: close\r\n");
        send_request(self.address, &format!("{method} {path} HTTP/1.1\r\n{headers}\r\n{body}"))
    }

    pub(crate) fn headers(&self) -> String {
        let authorization = self.key.map(|key| format!("Authorization: Bearer {key}\r\n"));
        format!("Host: {}\r\n{}", self.address, authorization.unwrap_or_default())
    }

    /// Scrapes the metrics.
    #[must_use]
    #[track_caller]
    pub fn metrics(&self) -> Metrics {
        Metrics::parse(&self.get("/metrics").body)
    }

    /// Returns the details of a session, which must exist.
    #[must_use]
    #[track_caller]
    pub fn session(&self, id: &str) -> Value {
        let answer = self.get(&format!("/api/sessions/{id}"));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Returns the phase of a session. `None` if it does not exist.
    #[must_use]
    #[track_caller]
    pub fn phase(&self, id: &str) -> Option<String> {
        let answer = self.get(&format!("/api/sessions/{id}"));
        (answer.status == 200).then(|| answer.json()["phase"].as_str().unwrap_or_default().to_owned())
    }

    /// Publishes a message and returns its position. If the test run uses Redis, also waits until the message
    /// is in the server's local log, if the server has one for this channel: with the memory engine it would
    /// be there by now.
    #[track_caller]
    pub fn publish(&self, channel: &str, data: impl Into<Value>) -> Value {
        let message = json!({ "channel": channel, "data": data.into() });
        let answer = self.post("/api/publish", &message.to_string());
        assert_eq!(answer.status, 200, "{answer:?}");
        let published = answer.json();
        self.await_offset(channel, published["offset"].as_u64().expect("every message has an offset"));
        published
    }

    /// Waits until the server's local log of a channel has reached this offset. With Redis, a publisher may
    /// receive the offset before the message reaches the local log.
    ///
    /// # Panics
    /// Panics if the log does not reach the offset in time.
    #[track_caller]
    pub fn await_offset(&self, channel: &str, offset: u64) {
        if !tests_use_redis() {
            return;
        }
        let name: String = channel.bytes().map(|byte| format!("%{byte:02X}")).collect();
        until("the message reaches the local log", || {
            let log = self.get(&format!("/api/channels/{name}"));
            log.status != 200 || log.json()["last"].as_u64() >= Some(offset)
        });
    }

    /// Sends `POST /api/sessions/{id}/disconnect`.
    #[track_caller]
    pub fn disconnect(&self, id: &str) -> HttpResponse {
        self.request("POST", &format!("/api/sessions/{id}/disconnect"))
    }

    /// Sends `DELETE /api/sessions/{id}`.
    #[track_caller]
    pub fn kick(&self, id: &str) -> HttpResponse {
        self.request("DELETE", &format!("/api/sessions/{id}"))
    }
}

/// Sends a whole request, which must ask for `Connection: close`, and reads the whole response.
///
/// # Panics
/// Panics if no response arrives.
#[must_use]
#[track_caller]
pub fn send_request(address: SocketAddr, request: &str) -> HttpResponse {
    let mut stream = TcpStream::connect(address).expect("the listener accepts");
    stream.set_read_timeout(Some(TIMEOUT)).expect("the socket timeout can be set");
    stream.write_all(request.as_bytes()).expect("the connection is open");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("a response arrives in time");
    HttpResponse::parse(&String::from_utf8(answer).expect("responses are text"))
}

impl HttpResponse {
    /// Parses a response.
    ///
    /// # Panics
    /// Panics if the text is not an HTTP response.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").expect("an HTTP response has a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Self {
            status: status.expect("a response has a status"),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    /// Returns the value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// Parses the body as JSON.
    ///
    /// # Panics
    /// Panics if the body or its content type is not JSON.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_str(&self.body).expect("the body is JSON")
    }

    /// Returns the code of an error response.
    ///
    /// # Panics
    /// Panics if the response is not an error.
    #[must_use]
    #[track_caller]
    pub fn error_code(&self) -> String {
        let error = &self.json()["error"];
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{self:?}");
        error["code"].as_str().expect("every error has a code").to_owned()
    }
}
