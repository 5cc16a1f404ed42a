//! A client of the admin listener.

use std::fmt::Display;
use std::net::SocketAddr;

use serde_json::{Value, json};

pub use crate::http::{HttpResponse, bearer, send_request};

use crate::Metrics;
use crate::server::tests_use_redis;
use crate::waiting::until;

/// Client of the admin listener that opens a connection for each request.
#[derive(Clone, Copy, Debug)]
pub struct Admin {
    address: SocketAddr,
    key: Option<&'static str>,
}

impl Admin {
    pub fn new(address: SocketAddr) -> Self {
        Self { address, key: None }
    }

    /// Sends this API key with each request.
    pub fn with_key(self, key: &'static str) -> Self {
        Self { key: Some(key), ..self }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn get(&self, path: &str) -> HttpResponse {
        self.request("GET", path)
    }

    pub fn request(&self, method: &str, path: &str) -> HttpResponse {
        self.request_with(method, path, &self.headers())
    }

    /// Sends `method path` with these headers (lines that end in CR LF) instead of the usual ones.
    pub fn request_with(&self, method: &str, path: &str, headers: &str) -> HttpResponse {
        send_request(self.address, &format!("{method} {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n"))
    }

    pub fn post(&self, path: &str, body: impl Display) -> HttpResponse {
        self.send(path, "Content-Type: application/json\r\n", body)
    }

    pub fn put(&self, path: &str, body: impl Display) -> HttpResponse {
        self.with_body("PUT", path, "Content-Type: application/json\r\n", body)
    }

    /// Sends `POST path` with a body and additional headers: lines that end in CR LF.
    pub fn send(&self, path: &str, headers: &str, body: impl Display) -> HttpResponse {
        self.with_body("POST", path, headers, body)
    }

    fn with_body(&self, method: &str, path: &str, headers: &str, body: impl Display) -> HttpResponse {
        let body = body.to_string();
        let (own, length) = (self.headers(), body.len());
        let headers = format!("{own}{headers}Content-Length: {length}\r\nConnection: close\r\n");
        send_request(self.address, &format!("{method} {path} HTTP/1.1\r\n{headers}\r\n{body}"))
    }

    pub(crate) fn headers(&self) -> String {
        let authorization = self.key.map(bearer);
        format!("Host: {}\r\n{}", self.address, authorization.unwrap_or_default())
    }

    pub fn metrics(&self) -> Metrics {
        Metrics::parse(&self.get("/metrics").body)
    }

    /// Returns the details of a session, which must exist.
    #[track_caller]
    pub fn session(&self, id: &str) -> Value {
        self.get(&format!("/api/sessions/{id}")).ok()
    }

    /// Returns the phase of a session. `None` if it does not exist.
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
        let published = self.post("/api/publish", message).ok();
        self.await_offset(channel, published["offset"].as_u64().expect("every message has an offset"));
        published
    }

    /// Publishes a message with each of `data`.
    #[track_caller]
    pub fn publish_each(&self, channel: &str, data: impl IntoIterator<Item = impl Into<Value>>) {
        for data in data {
            self.publish(channel, data);
        }
    }

    /// Waits until the server's local log of a channel has reached this offset. With Redis, a publisher may
    /// receive the offset before the message reaches the local log.
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

    pub fn disconnect(&self, id: &str) -> HttpResponse {
        self.request("POST", &format!("/api/sessions/{id}/disconnect"))
    }

    pub fn kick(&self, id: &str) -> HttpResponse {
        self.request("DELETE", &format!("/api/sessions/{id}"))
    }
}
