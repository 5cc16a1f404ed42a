//! Version 3 of RESP, the protocol of Redis.

/// Parses the first command in `bytes`. Returns it with its length, or `None` if it is incomplete.
pub(super) fn read_command(bytes: &[u8]) -> Result<Option<(Vec<String>, usize)>, String> {
    let mut rest = bytes;
    let Some(count) = read_number(&mut rest, b'*')? else { return Ok(None) };
    let mut words = Vec::new();
    for _ in 0..count {
        let Some(length) = read_number(&mut rest, b'$')? else { return Ok(None) };
        if rest.len() < length + 2 {
            return Ok(None);
        }
        words.push(String::from_utf8(rest[..length].to_vec()).map_err(|error| error.to_string())?);
        rest = &rest[length + 2..];
    }
    Ok(Some((words, bytes.len() - rest.len())))
}

fn read_number(rest: &mut &[u8], kind: u8) -> Result<Option<usize>, String> {
    let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
    let line = std::str::from_utf8(&rest[..end]).map_err(|error| error.to_string())?;
    let number = line.strip_prefix(char::from(kind)).and_then(|number| number.parse().ok());
    *rest = &rest[end + 2..];
    number.map(Some).ok_or_else(|| format!("{line:?} instead of {:?}", char::from(kind)))
}

/// A value sent by Redis.
#[derive(Clone, Debug)]
pub(super) enum RespValue {
    Simple(&'static str),
    Number(u64),
    Text(String),
    Nothing,
    Array(Vec<RespValue>),
    Map(Vec<(RespValue, RespValue)>),
    Push(Vec<RespValue>),
}

impl RespValue {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn write(&self, into: &mut Vec<u8>) {
        let list = |kind: char, values: &[Self], into: &mut Vec<u8>| {
            into.extend(format!("{kind}{}\r\n", values.len()).as_bytes());
            values.iter().for_each(|value| value.write(into));
        };
        match self {
            Self::Simple(text) => into.extend(format!("+{text}\r\n").as_bytes()),
            Self::Number(number) => into.extend(format!(":{number}\r\n").as_bytes()),
            Self::Text(text) => into.extend(format!("${}\r\n{text}\r\n", text.len()).as_bytes()),
            Self::Nothing => into.extend(b"_\r\n"),
            Self::Array(values) => list('*', values, into),
            Self::Push(values) => list('>', values, into),
            Self::Map(pairs) => {
                into.extend(format!("%{}\r\n", pairs.len()).as_bytes());
                for (key, value) in pairs {
                    key.write(into);
                    value.write(into);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_commands_are_not_parsed() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$2\r\na\n\r\n*1\r\n";
        let (words, taken) = read_command(bytes).expect("a valid command").expect("a complete command");
        assert_eq!((words, taken), (vec!["GET".to_owned(), "a\n".to_owned()], 21));
        assert!((0..taken).all(|length| read_command(&bytes[..length]) == Ok(None)));
        assert!(read_command(b"GET a\r\n").is_err());
    }

    #[test]
    fn values_are_encoded() {
        let mut bytes = Vec::new();
        RespValue::Array(vec![RespValue::text("a"), RespValue::Number(7), RespValue::Simple("OK")])
            .write(&mut bytes);
        assert_eq!(bytes, b"*3\r\n$1\r\na\r\n:7\r\n+OK\r\n");
    }
}
