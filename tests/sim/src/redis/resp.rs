//! Version 3 of RESP, the protocol of Redis.

use std::fmt::Display;

/// Parses the first command in `bytes`. Returns it with its length, or `None` if it is incomplete.
pub(super) fn read_command(bytes: &[u8]) -> Result<Option<(Vec<String>, usize)>, String> {
    let mut rest = bytes;
    let Some(count) = read_number(&mut rest, '*')? else { return Ok(None) };
    let mut words = Vec::new();
    for _ in 0..count {
        let Some(length) = read_number(&mut rest, '$')? else { return Ok(None) };
        let Some((word, after)) = rest.split_at_checked(length) else { return Ok(None) };
        let Some(after) = after.get(2..) else { return Ok(None) };
        words.push(String::from_utf8(word.to_vec()).map_err(|error| error.to_string())?);
        rest = after;
    }
    Ok(Some((words, bytes.len() - rest.len())))
}

fn read_number(rest: &mut &[u8], kind: char) -> Result<Option<usize>, String> {
    let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
    let line = std::str::from_utf8(&rest[..end]).map_err(|error| error.to_string())?;
    *rest = &rest[end + 2..];
    let number = line.strip_prefix(kind).and_then(|number| number.parse().ok());
    number.map(Some).ok_or_else(|| format!("{line:?} instead of a number after {kind:?}"))
}

pub(super) const NULL: &str = "_\r\n";

pub(super) fn simple(text: &str) -> String {
    format!("+{text}\r\n")
}

pub(super) fn number(number: u64) -> String {
    format!(":{number}\r\n")
}

pub(super) fn bulk(text: impl Display) -> String {
    let text = text.to_string();
    format!("${}\r\n{text}\r\n", text.len())
}

pub(super) fn array(items: impl AsRef<[String]>) -> String {
    format!("*{}\r\n{}", items.as_ref().len(), items.as_ref().concat())
}

pub(super) fn push(items: &[String]) -> String {
    format!(">{}\r\n{}", items.len(), items.concat())
}
