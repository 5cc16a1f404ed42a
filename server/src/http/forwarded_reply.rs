use http_body_util::BodyExt;
use hyper::StatusCode;
use minicbor::{Decode, Encode};

use super::Reply;
use super::reply::with;

/// A JSON response, as one server sends it to another.
#[derive(Debug, Encode, Decode)]
#[cbor(map)]
pub(crate) struct ForwardedReply {
    #[n(0)]
    status: u16,
    #[cbor(n(1), with = "minicbor::bytes")]
    body: Vec<u8>,
}

impl ForwardedReply {
    pub(crate) async fn of(reply: Reply) -> Self {
        let status = reply.status().as_u16();
        let Ok(body) = reply.into_body().collect().await;
        Self { status, body: body.to_bytes().to_vec() }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("a reply can be encoded into memory")
    }

    /// Returns `None` if the bytes are malformed.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let reply: Self = minicbor::decode(bytes).ok()?;
        StatusCode::from_u16(reply.status).is_ok().then_some(reply)
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_GATEWAY)
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }
}

impl From<ForwardedReply> for Reply {
    fn from(reply: ForwardedReply) -> Self {
        with(reply.status(), "application/json", reply.body)
    }
}
