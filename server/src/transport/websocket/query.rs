use encke_core::session::Heartbeat;

/// What a client asks for in the query of its upgrade request.
#[derive(Default)]
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(super) struct Query {
    /// A resume token, not yet looked at.
    pub(super) resume: Option<String>,
    /// The last message that the client has.
    pub(super) seq: Option<u64>,
    /// A JWT, not yet looked at.
    pub(super) token: Option<String>,
    pub(super) heartbeat: Heartbeat,
}

/// A value that is not what its name wants.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadQuery;

impl Query {
    /// Names that it does not know are left to others.
    pub(super) fn parse(query: &str) -> Result<Self, BadQuery> {
        let mut parsed = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "resume" => parsed.resume = Some(value.into_owned()),
                "seq" => parsed.seq = Some(value.parse().map_err(|_| BadQuery)?),
                "token" => parsed.token = Some(value.into_owned()),
                "heartbeat" => parsed.heartbeat = heartbeat(&value).ok_or(BadQuery)?,
                _ => {}
            }
        }
        Ok(parsed)
    }
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
            Query::parse("resume=s_a%2Eb&seq=7&token=a.b.c&heartbeat=message&x=y").expect("a good query");
        let expected = Query {
            resume: Some("s_a.b".into()),
            seq: Some(7),
            token: Some("a.b.c".into()),
            heartbeat: Heartbeat::Message,
        };
        assert_eq!(read, expected);
        assert_eq!(Query::parse(""), Ok(Query::default()));
    }

    #[test]
    fn bad_values_are_refused() {
        for query in ["seq=", "seq=-1", "seq=18446744073709551616", "heartbeat=", "heartbeat=none"] {
            assert_eq!(Query::parse(query), Err(BadQuery), "{query}");
        }
    }
}
