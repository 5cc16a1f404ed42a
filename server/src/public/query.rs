use encke_core::dialect::json::Json;
use encke_core::session::Heartbeat;

use crate::transport::websocket::Wanted;

/// Reads the query of an upgrade request; `None` if a value is malformed. Unknown names are ignored.
pub(crate) fn parse_query(query: &str) -> Option<Wanted<Json>> {
    let mut wanted = Wanted::<Json>::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "resume" => wanted.resume = Some(value.into_owned()),
            "seq" => wanted.seq = Some(value.parse().ok()?),
            "token" => wanted.token = Some(value.into_owned()),
            "heartbeat" => wanted.dialect.heartbeat = heartbeat(&value)?,
            _ => {}
        }
    }
    Some(wanted)
}

fn heartbeat(value: &str) -> Option<Heartbeat> {
    match value {
        "frame" => Some(Heartbeat::Frame),
        "message" => Some(Heartbeat::Message),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read() {
        let read =
            parse_query("resume=s_a%2Eb&seq=7&token=a.b.c&heartbeat=message&x=y").expect("a good query");
        let expected = Wanted {
            resume: Some("s_a.b".into()),
            seq: Some(7),
            token: Some("a.b.c".into()),
            dialect: Json { heartbeat: Heartbeat::Message },
        };
        assert_eq!(read, expected);
        assert_eq!(parse_query(""), Some(Wanted::default()));
    }

    #[test]
    fn bad_values_are_refused() {
        for query in ["seq=", "seq=-1", "seq=18446744073709551616", "heartbeat=", "heartbeat=none"] {
            assert_eq!(parse_query(query), None, "{query}");
        }
    }
}
