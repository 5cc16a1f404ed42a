//! Server-sent events: the body of an HTTP response, as specified in section 9.2 of the WHATWG HTML standard.

mod parser;
mod request;
mod stream;

pub(crate) use self::parser::StreamItem;
pub(crate) use self::request::request;
pub(crate) use self::stream::EventStream;
