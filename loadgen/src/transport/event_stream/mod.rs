//! Server-sent events: the body of an HTTP response, as the WHATWG's HTML standard has it in section 9.2.

mod parser;
mod request;
mod stream;

pub(crate) use self::parser::Found;
pub(crate) use self::request::request;
pub(crate) use self::stream::EventStream;
