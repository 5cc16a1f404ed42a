//! A viewer of the admin listener's `/api/live`.

use serde_json::Value;

use crate::connection::{Connection, Dial};
use crate::http::HttpResponse;
use crate::{Admin, EventStream};

/// Event stream whose events have names.
#[derive(Debug)]
pub struct LiveStream {
    events: EventStream,
    pub head: HttpResponse,
}

impl LiveStream {
    #[track_caller]
    pub fn open(admin: Admin) -> Self {
        let events = EventStream::read(request_live(admin, Dial::default()));
        Self { head: HttpResponse::parse(&events.head), events }
    }

    /// Returns the data of the next event, which must have this name.
    #[track_caller]
    pub fn event(&mut self, name: &str) -> Value {
        let (found, data) = self.next().expect("the stream continues");
        assert_eq!(found, name, "{data}");
        data
    }
}

impl Iterator for LiveStream {
    type Item = (String, Value);

    /// Returns the name and the data of the next event. `None` at the end of the stream.
    fn next(&mut self) -> Option<(String, Value)> {
        let block = self.events.block()?;
        let lines = block.split_once('\n').and_then(|(first, second)| {
            Some((first.strip_prefix("event: ")?, second.strip_prefix("data: ")?))
        });
        let (name, data) = lines.unwrap_or_else(|| panic!("not a name and a line of data: {block}"));
        Some((name.to_owned(), serde_json::from_str(data).expect("the server sends JSON")))
    }
}

/// Requests the stream without reading the response.
pub fn request_live(admin: Admin, dial: Dial) -> Connection {
    let mut connection = Connection::over(dial.connect(admin.address()));
    connection.send(format!("GET /api/live HTTP/1.1\r\n{}\r\n", admin.headers()));
    connection
}
