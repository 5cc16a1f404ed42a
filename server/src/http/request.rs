//! Parts of a request's head.

use std::borrow::Cow;

use encke_base::nearest::nearest;
use hyper::header::{COOKIE, HOST, HeaderMap, HeaderValue};
use hyper::{Request, Uri};
use percent_encoding::percent_decode;

use super::ApiError;

/// Maximum length of an unknown name in an error, in characters. The name may be a secret token whose
/// `token=` was forgotten, and errors are logged.
const MAX_NAME_LENGTH: usize = 20;

/// Prepares a request for its checks: the host of an absolute target replaces `Host` (RFC 9112, section
/// 3.2.2).
///
/// # Errors
/// The query is not UTF-8. Otherwise, different texts would be taken for the same one.
pub(crate) fn normalize<B>(request: &mut Request<B>) -> Result<(), ApiError> {
    if request.uri().query().is_some_and(|query| !is_utf8(query.as_bytes())) {
        return Err(ApiError::bad_request("the query is not valid UTF-8"));
    }
    // A repeated header is left, so that it is refused.
    if let Some(authority) = request.uri().authority()
        && request.headers().get_all(HOST).iter().nth(1).is_none()
    {
        let host = HeaderValue::from_str(authority.as_str()).expect("an authority is visible ASCII");
        request.headers_mut().insert(HOST, host);
    }
    Ok(())
}

/// Whether the parameters of a query or a form are UTF-8.
pub(crate) fn is_utf8(form: &[u8]) -> bool {
    percent_decode(form).decode_utf8().is_ok()
}

/// Returns the parameters of the query.
pub(crate) fn parameters(uri: &Uri) -> form_urlencoded::Parse<'_> {
    form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
}

/// Returns the last parameter of the query with this name.
pub(crate) fn parameter<'a>(uri: &'a Uri, name: &str) -> Option<Cow<'a, str>> {
    parameters(uri).filter(|(parameter, _)| parameter == name).last().map(|(_, value)| value)
}

/// Checks that the parameters have no other names than these.
///
/// # Errors
/// A name is unknown. The error contains the known name that is nearest to it, or all if none is similar.
pub(crate) fn check_names<'a>(
    names: impl IntoIterator<Item = Cow<'a, str>>,
    known: &[&str],
) -> Result<(), ApiError> {
    let Some(unknown) = names.into_iter().find(|name| !known.contains(&&**name)) else { return Ok(()) };
    let shown: String = unknown.chars().take(MAX_NAME_LENGTH).collect();
    let hint = match nearest(&unknown, known) {
        Some(name) => format!("did you mean {name}?"),
        None if known.is_empty() => "this path has none".to_owned(),
        None => format!("this path has {}", known.join(", ")),
    };
    Err(ApiError::bad_request(format!("unknown parameter: {}; {hint}", shown.escape_debug())))
}

/// Returns the names and values of all cookies.
pub(crate) fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let lines = headers.get_all(COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the hosts of a normalized request.
    fn hosts(target: &str, hosts: &[&str]) -> Result<Vec<String>, String> {
        let request = hosts.iter().fold(Request::get(target), |request, host| request.header(HOST, *host));
        let mut request = request.body(()).expect("a request");
        normalize(&mut request).map_err(|error| error.to_string())?;
        let text = |host: &HeaderValue| host.to_str().expect("text").to_owned();
        Ok(request.headers().get_all(HOST).iter().map(text).collect())
    }

    #[test]
    fn host_of_an_absolute_target_replaces_the_header() {
        for (target, before, after) in [
            ("/ws", &["a"][..], &["a"][..]),
            ("http://b:80/ws", &["a"], &["b:80"]),
            ("http://me@b/ws", &["a"], &["me@b"]),
            ("http://b/ws", &[], &["b"]),
            ("http://b/ws", &["a", "b"], &["a", "b"]),
        ] {
            let after = after.iter().map(ToString::to_string).collect();
            assert_eq!(hosts(target, before), Ok(after), "{target}");
        }
    }

    #[test]
    fn query_must_be_utf8() {
        for (query, is_valid) in
            [("a=%c3%a4", true), ("a=%ff", false), ("%ff", false), ("a=%c3&b=%a4", false), ("a=%", true)]
        {
            assert_eq!(hosts(&format!("/?{query}"), &[]).is_ok(), is_valid, "{query}");
        }
    }

    #[test]
    fn unknown_parameters_are_named_with_the_nearest_known_one() {
        let known = &["channels", "last", "seq", "lastEventId"][..];
        let all = "this path has channels, last, seq, lastEventId";
        for (query, message) in [
            ("", None),
            ("channels=a&seq=1&seq=2", None),
            ("chanels=a", Some("chanels; did you mean channels?".to_owned())),
            ("seq=1&last-event-id=2", Some("last-event-id; did you mean lastEventId?".into())),
            ("SEQ=1", Some("SEQ; did you mean seq?".into())),
            ("x=1", Some(format!("x; {all}"))),
            ("=1", Some(format!("; {all}"))),
            ("a%0Ab", Some(format!("a\\nb; {all}"))),
            ("s_0123456789abcdefgh.secret", Some(format!("s_0123456789abcdefgh; {all}"))),
        ] {
            let uri = Uri::try_from(format!("/?{query}")).expect("a URI");
            let checked = check_names(parameters(&uri).map(|(name, _)| name), known);
            let expected = message.map(|message| format!("unknown parameter: {message}"));
            assert_eq!(checked.err().map(|error| error.to_string()), expected, "{query}");
        }
        let none = check_names(["x".into()], &[]).expect_err("an unknown name");
        assert_eq!(none.to_string(), "unknown parameter: x; this path has none");
    }
}
