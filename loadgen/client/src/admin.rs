//! Client for the admin API: publishes messages, and fetches metrics and statistics.

use std::future::poll_fn;

use serde_json::Value;

use crate::transport::{Endpoint, HttpClient, Request, TlsOptions};
use crate::{AdminUrl, ClientFailure};

/// Calls the admin API over one connection, which is reopened if it was lost.
#[derive(Debug)]
pub struct AdminClient {
    url: AdminUrl,
    http: Box<HttpClient>,
}

impl AdminClient {
    pub fn new(url: AdminUrl, api_key: Option<&str>, tls: &TlsOptions) -> Result<Self, ClientFailure> {
        if api_key.is_some_and(|key| !key.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(ClientFailure::Publish("bad_api_key".to_owned()));
        }
        let authorization = api_key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
        let endpoint = Endpoint::new(url.0.clone(), tls.clone());
        Ok(Self { url, http: Box::new(HttpClient::new(&endpoint, authorization.into())) })
    }

    /// Publishes one message. `body` is the request body: `{"channel":..,"data":..}`.
    pub async fn publish(&mut self, body: String) -> Result<(), ClientFailure> {
        let (status, body) =
            self.call("POST", "/api/publish", &body).await.map_err(ClientFailure::PublisherGone)?;
        if is_success(status) { Ok(()) } else { Err(ClientFailure::Publish(code_of(status, &body))) }
    }

    /// Requests this path and returns the body of the response.
    pub async fn get(&mut self, path: &str) -> Result<Vec<u8>, String> {
        let (status, body) = self.call("GET", path, "").await?;
        if is_success(status) { Ok(body) } else { Err(format!("{path}: {}", code_of(status, &body))) }
    }

    async fn call(&mut self, method: &'static str, path: &str, body: &str) -> Result<(u16, Vec<u8>), String> {
        poll_fn(|context| self.http.poll_ready(context)).await.map_err(|error| error.to_string())?;
        let request = || Request { method, path: self.url.path(path), body: body.to_owned() };
        let response = poll_fn(|context| self.http.poll_exchange(context, request)).await;
        response.map(|response| (response.status, response.body)).map_err(|end| end.to_string())
    }
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

/// Returns the API's error code if the body has one, otherwise the HTTP status.
fn code_of(status: u16, body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    body["error"]["code"].as_str().map_or_else(|| format!("http_{status}"), str::to_owned)
}
