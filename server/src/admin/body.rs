use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::live::Viewer;
use crate::http::Reply;

/// Body of a response.
#[derive(Debug)]
pub(super) enum ResponseBody {
    Whole(Full<Bytes>),
    /// A stream for a viewer of the dashboard.
    Live(Viewer),
}

/// Converts a complete [`Reply`].
pub(super) fn full_body(reply: Reply) -> Response<ResponseBody> {
    reply.map(ResponseBody::Whole)
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(task),
            Self::Live(viewer) => {
                viewer.poll_piece(task).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Live(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Live(_) => SizeHint::default(),
        }
    }
}
