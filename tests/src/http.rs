//! HTTP requests and responses, and single requests on connections of their own.

use std::net::SocketAddr;

use serde_json::Value;

use crate::connection::Connection;

#[derive(Clone, Debug)]
pub struct HttpResponse {
    pub status: u16,
    head: String,
    pub body: String,
}

/// Sends a whole request, which must ask for `Connection: close`, and reads the whole response.
#[track_caller]
pub fn send_request(address: SocketAddr, request: &str) -> HttpResponse {
    let mut connection = Connection::connect(address);
    // The server may respond and close before it has read all of the request.
    let _ = connection.try_send(request);
    HttpResponse::parse(&String::from_utf8(connection.read_to_end()).expect("responses are text"))
}

/// Bytes of `POST path` with additional headers: lines that end in CR LF.
pub fn post(path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}Content-Length: {length}\r\n\r\n{body}")
}

/// Header line with a token or an API key.
pub fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// Removes a whole response with a `Content-Length`, or without a body.
pub(crate) fn take_response(received: &mut Vec<u8>) -> Option<HttpResponse> {
    let head = received.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    let text = str::from_utf8(&received[..head]).expect("a head is text");
    let length = HttpResponse::parse(text)
        .header("content-length")
        .map_or(0, |length| length.parse::<usize>().expect("a length is a number"));
    if received.len() < head + length {
        return None;
    }
    let response = received.drain(..head + length).collect();
    Some(HttpResponse::parse(&String::from_utf8(response).expect("responses are text")))
}

impl HttpResponse {
    pub fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").expect("an HTTP response has a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Self {
            status: status.expect("a response has a status"),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_str(&self.body).expect("the body is JSON")
    }

    /// Returns the body of a response that must have status 200.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }

    /// Asserts that the response has this status and this error code.
    #[track_caller]
    pub fn assert_error(&self, status: u16, code: &str) {
        assert_eq!((self.status, &*self.error_code()), (status, code), "{self:?}");
    }

    #[track_caller]
    pub fn error_code(&self) -> String {
        let error = &self.json()["error"];
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{self:?}");
        error["code"].as_str().expect("every error has a code").to_owned()
    }
}
