//! Client for the admin API: publishes messages, and fetches metrics and statistics.

use std::error::Error;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::request::Builder;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;

use super::ClientFailure;
use crate::target::AdminUrl;

/// Size limit for a response.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// Calls the admin API over one connection, which is reopened if it was lost.
#[derive(Debug)]
pub struct AdminClient {
    url: AdminUrl,
    authorization: Option<HeaderValue>,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl AdminClient {
    pub fn new(url: AdminUrl, api_key: Option<&str>) -> Result<Self, ClientFailure> {
        let bearer = api_key.map(|key| HeaderValue::try_from(format!("Bearer {key}")));
        let authorization =
            bearer.transpose().map_err(|_| ClientFailure::Publish("bad_api_key".to_owned()))?;
        Ok(Self { url, authorization, connection: None })
    }

    /// Publishes one message. `body` is the request body: `{"channel":..,"data":..}`.
    pub(crate) async fn publish(&mut self, body: String) -> Result<(), ClientFailure> {
        let request = Request::post(self.url.path("/api/publish"));
        let request = request.header(CONTENT_TYPE, "application/json");
        let (status, body) = self.call(request, body).await.map_err(ClientFailure::PublisherGone)?;
        if status.is_success() { Ok(()) } else { Err(ClientFailure::Publish(code_of(status, &body))) }
    }

    /// Requests this path and returns the body of the response.
    pub async fn get(&mut self, path: &str) -> Result<Bytes, String> {
        let (status, body) = self.call(Request::get(self.url.path(path)), String::new()).await?;
        if status.is_success() { Ok(body) } else { Err(format!("{path}: {}", code_of(status, &body))) }
    }

    async fn call(&mut self, request: Builder, body: String) -> Result<(StatusCode, Bytes), String> {
        let mut connection = match self.connection.take() {
            Some(connection) if !connection.is_closed() => connection,
            _ => self.connect().await.map_err(|error| error.to_string())?,
        };
        connection.ready().await.map_err(|error| error.to_string())?;
        let mut request = request.header(HOST, self.url.authority());
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Full::from(body)).map_err(|error| error.to_string())?;
        let response = connection.send_request(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        // Read to the end, so that the connection can be reused.
        let body = Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect();
        let body = body.await.map_err(|error| error.to_string())?.to_bytes();
        self.connection = Some(connection);
        Ok((status, body))
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Box<dyn Error>> {
        let stream = TcpStream::connect(self.url.authority()).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // An error of the connection also fails the request, which reports it.
        tokio::task::spawn_local(async move { drop(connection.await) });
        Ok(sender)
    }
}

/// Returns the API's error code if the body has one, otherwise the HTTP status.
fn code_of(status: StatusCode, body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct ErrorResponse {
        error: Code,
    }
    #[derive(Deserialize)]
    struct Code {
        code: String,
    }
    serde_json::from_slice(body)
        .map_or_else(|_| format!("http_{}", status.as_u16()), |ErrorResponse { error }| error.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_a_code() {
        let status = StatusCode::FORBIDDEN;
        assert_eq!(code_of(status, br#"{"error":{"code":"forbidden","message":"no"}}"#), "forbidden");
        assert_eq!(code_of(status, b"<html>"), "http_403");
    }
}
