//! A client of the admin listener.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use crate::Metrics;
use crate::server::tests_are_on_redis;
use crate::waiting::{TIMEOUT, until};

/// Asks the admin listener, on a connection of its own each time.
#[derive(Clone, Copy, Debug)]
pub struct Admin {
    address: SocketAddr,
    key: Option<&'static str>,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    head: String,
    /// What follows the headers.
    pub body: String,
}

impl Admin {
    /// For the listener at `address`.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self { address, key: None }
    }

    /// The same with a key of the API.
    #[must_use]
    pub fn with_key(self, key: &'static str) -> Self {
        Self { key: Some(key), ..self }
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `GET path`
    #[must_use]
    #[track_caller]
    pub fn get(&self, path: &str) -> HttpResponse {
        self.request("GET", path)
    }

    /// `method path`
    #[track_caller]
    pub fn request(&self, method: &str, path: &str) -> HttpResponse {
        self.request_with(method, path, &self.headers())
    }

    /// `method path` with other headers than `Host`: lines that end in CR LF.
    #[track_caller]
    pub fn request_with(&self, method: &str, path: &str, headers: &str) -> HttpResponse {
        send_request(self.address, &format!("{method} {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n"))
    }

    /// `POST path` with a JSON body.
    #[track_caller]
    pub fn post(&self, path: &str, body: &str) -> HttpResponse {
        self.send(path, "Content-Type: application/json\r\n", body)
    }

    /// `PUT path` with a JSON body.
    #[track_caller]
    pub fn put(&self, path: &str, body: &str) -> HttpResponse {
        self.with_body("PUT", path, "Content-Type: application/json\r\n", body)
    }

    /// `POST path` with a body, and with headers of its own: lines that end in CR LF.
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

    /// All metrics.
    #[must_use]
    #[track_caller]
    pub fn metrics(&self) -> Metrics {
        Metrics::parse(&self.get("/metrics").body)
    }

    /// The details of a session that exists.
    #[must_use]
    #[track_caller]
    pub fn session(&self, id: &str) -> Value {
        let answer = self.get(&format!("/api/sessions/{id}"));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// The phase of a session; `None` when it is gone.
    #[must_use]
    #[track_caller]
    pub fn phase(&self, id: &str) -> Option<String> {
        let answer = self.get(&format!("/api/sessions/{id}"));
        (answer.status == 200).then(|| answer.json()["phase"].as_str().unwrap_or_default().to_owned())
    }

    /// Publishes one message: where it is now. If all tests are on Redis, it is also in the log here, if there is one, as it would be in memory.
    #[track_caller]
    pub fn publish(&self, channel: &str, data: impl Into<Value>) -> Value {
        let message = json!({ "channel": channel, "data": data.into() });
        let answer = self.post("/api/publish", &message.to_string());
        assert_eq!(answer.status, 200, "{answer:?}");
        let published = answer.json();
        self.await_offset(channel, published["offset"].as_u64().expect("each message has one"));
        published
    }

    /// Waits until what is followed here of the channel has come to this message, which was published: in Redis, that is told later than the offset.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn await_offset(&self, channel: &str, offset: u64) {
        if !tests_are_on_redis() {
            return;
        }
        let name: String = channel.bytes().map(|byte| format!("%{byte:02X}")).collect();
        until("it has come here", || {
            let log = self.get(&format!("/api/channels/{name}"));
            log.status != 200 || log.json()["last"].as_u64() >= Some(offset)
        });
    }

    /// `POST /api/sessions/{id}/disconnect`
    #[track_caller]
    pub fn disconnect(&self, id: &str) -> HttpResponse {
        self.request("POST", &format!("/api/sessions/{id}/disconnect"))
    }

    /// `DELETE /api/sessions/{id}`
    #[track_caller]
    pub fn kick(&self, id: &str) -> HttpResponse {
        self.request("DELETE", &format!("/api/sessions/{id}"))
    }
}

/// Sends a whole request that asks for `Connection: close`, and reads the whole answer.
///
/// # Panics
/// When there is none.
#[must_use]
#[track_caller]
pub fn send_request(address: SocketAddr, request: &str) -> HttpResponse {
    let mut stream = TcpStream::connect(address).expect("the listener accepts");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a socket takes a timeout");
    stream.write_all(request.as_bytes()).expect("the listener reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("the listener answers in time");
    HttpResponse::parse(&String::from_utf8(answer).expect("answers are text"))
}

impl HttpResponse {
    /// Takes an answer apart.
    ///
    /// # Panics
    /// When it is not HTTP.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").expect("an HTTP answer has a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Self { status: status.expect("a status"), head: head.to_owned(), body: body.to_owned() }
    }

    /// A header's value.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none, or not said to be.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_str(&self.body).expect("the body is JSON")
    }

    /// The code of an error answer.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    #[track_caller]
    pub fn error_code(&self) -> String {
        let error = &self.json()["error"];
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{self:?}");
        error["code"].as_str().expect("an error has a code").to_owned()
    }
}
