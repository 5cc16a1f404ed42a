//! What is said on a connection to Redis: RESP, version 3.

/// The first command in `bytes`, if all of it is there, and its length.
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
    number.map(Some).ok_or_else(|| format!("{line:?} where {:?} is due", char::from(kind)))
}

/// What Redis says.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Simple(&'static str),
    Number(u64),
    Text(String),
    Nothing,
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
    /// By itself.
    Push(Vec<Value>),
}

impl Value {
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
    fn a_command_is_read_when_it_is_whole() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$2\r\na\n\r\n*1\r\n";
        let (words, taken) = read_command(bytes).expect("a good command").expect("a whole command");
        assert_eq!((words, taken), (vec!["GET".to_owned(), "a\n".to_owned()], 21));
        assert!((0..taken).all(|length| read_command(&bytes[..length]) == Ok(None)));
        assert!(read_command(b"GET a\r\n").is_err());
    }

    #[test]
    fn an_answer_is_written() {
        let mut bytes = Vec::new();
        Value::Array(vec![Value::text("a"), Value::Number(7), Value::Simple("OK")]).write(&mut bytes);
        assert_eq!(bytes, b"*3\r\n$1\r\na\r\n:7\r\n+OK\r\n");
    }
}
