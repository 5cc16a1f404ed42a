//! Long-polling: sends requests on one connection and reads their responses.

use std::fmt::Display;
use std::net::TcpStream;

use crate::connection::{Connection, Transport};
use crate::http::{self, HttpResponse};

/// Connection for successive or pipelined polls.
pub type PollClient<S = TcpStream> = Connection<S>;

impl<S: Transport> Connection<S> {
    /// Sends `GET /poll?query` without waiting for the response.
    pub fn send_get(&mut self, query: &str) {
        self.send(get(query));
    }

    /// Sends `GET /poll?query` and returns the response.
    #[track_caller]
    pub fn get(&mut self, query: &str) -> HttpResponse {
        self.send_get(query);
        self.response()
    }

    /// Sends `POST /poll?query` with a JSON body and returns the response.
    #[track_caller]
    pub fn post(&mut self, query: &str, body: impl Display) -> HttpResponse {
        self.exchange(post(query, "Content-Type: application/json\r\n", &body.to_string()))
    }

    /// Waits for the end of the connection, before which no response may arrive.
    #[track_caller]
    pub fn await_end_without_response(&mut self) {
        if let Some(response) = self.try_response() {
            panic!("expected the end of the connection, got {response:?}");
        }
    }
}

/// Returns the bytes of `GET /poll?query`.
pub fn get(query: &str) -> String {
    get_with(query, "")
}

/// Like [`get`], with additional headers: lines that end in CR LF.
pub fn get_with(query: &str, headers: &str) -> String {
    format!("GET /poll?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n")
}

/// Returns the bytes of `POST /poll?query` with additional headers: lines that end in CR LF.
pub fn post(query: &str, headers: &str, body: &str) -> String {
    http::post(&format!("/poll?{query}"), headers, body)
}
