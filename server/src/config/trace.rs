//! `[trace]`.

use std::path::PathBuf;

use encke_base::outbound::{Target, Trust};
use encke_base::trace::{TraceSettings, Tracer};
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::units::optional;
use super::validator::{Refused, Validator};

const OTLP: &str = "trace.otlp";
const SAMPLE: &str = "trace.sample";
const CA: &str = "trace.ca";
const HEADERS: &str = "trace.headers";
/// Headers that the server itself sets on each request.
const RESERVED_HEADERS: [HeaderName; 5] = [CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING];

#[derive(Deserialize)]
pub(super) struct RawTrace {
    otlp: String,
    headers: Vec<SecretString>,
    #[serde(deserialize_with = "optional")]
    ca: Option<PathBuf>,
    sample: f64,
}

impl Validator<'_> {
    /// Validates `[trace]`. Returns `None` if there is no collector.
    pub(super) fn trace(&self, raw: &RawTrace) -> Result<Option<TraceSettings>, Refused> {
        self.require((0.0..=1.0).contains(&raw.sample), SAMPLE, "must be from 0 to 1");
        if raw.otlp.is_empty() {
            return Ok(None);
        }
        let message = "this build has no OpenTelemetry: build it with --features otlp";
        self.require(Tracer::IS_AVAILABLE, OTLP, message);
        let target: Target = self.require_ok(OTLP, traces_url(&raw.otlp).parse())?;
        let trust = self.require_ok(CA, Trust::load(target.is_tls(), CA, raw.ca.as_deref()))?;
        let mut headers = HeaderMap::new();
        for (index, line) in raw.headers.iter().enumerate() {
            let header = self.require_ok(&format!("{HEADERS}[{index}]"), parse_header(line.expose_secret()));
            headers.extend(header);
        }
        Ok(Some(TraceSettings { target, trust, headers, sample: raw.sample }))
    }
}

/// Returns the URL for traces. A URL without a path gets OTLP's default path.
fn traces_url(text: &str) -> String {
    let base = text.trim_end_matches('/');
    let has_path = base.split_once("://").is_none_or(|(_, rest)| rest.contains(['/', '?', '#']));
    if has_path { text.to_owned() } else { format!("{base}/v1/traces") }
}

/// Parses a header line. Errors do not quote the line, since it may contain a secret.
fn parse_header(line: &str) -> Result<(HeaderName, HeaderValue), &'static str> {
    let (name, value) = line.split_once(':').ok_or("must be a name, a colon and a value")?;
    let name: HeaderName = name.trim().parse().map_err(|_| "has no valid header name before the colon")?;
    if RESERVED_HEADERS.contains(&name) {
        return Err("is a header that the server sets itself");
    }
    let mut value = HeaderValue::from_str(value.trim()).map_err(|_| "has an invalid value")?;
    value.set_sensitive(true);
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::{Tracer, traces_url};
    use crate::config::Settings;

    fn error(flags: &[&str]) -> Option<String> {
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        Settings { flags, ..Settings::default() }.resolve().err().map(|error| error.to_string())
    }

    #[test]
    fn a_ratio_is_from_0_to_1() {
        for sample in ["0.0", "0.25", "1.0", "1", "0"] {
            assert_eq!(error(&[&format!("trace.sample={sample}")]), None, "{sample}");
        }
        for sample in ["-0.1", "1.1", "nan"] {
            let error = error(&[&format!("trace.sample={sample}")]).expect("not a ratio");
            assert!(error.contains("trace.sample") && error.contains("from 0 to 1"), "{error}");
        }
    }

    #[test]
    fn a_collector_requires_the_feature() {
        assert_eq!(error(&["trace.otlp="]), None);
        let error = error(&["trace.otlp=http://127.0.0.1:4318"]);
        assert_eq!(error.is_none(), Tracer::IS_AVAILABLE);
        let is_explained =
            |error: String| error.contains("this build has no OpenTelemetry: build it with --features otlp");
        assert!(error.is_none_or(is_explained));
    }

    #[test]
    fn errors_show_no_secrets() {
        for flag in [
            "trace.otlp=http://me:hunter2@a",
            "trace.headers=hunter2",
            "trace.otlb=hunter2",
            "trace.headers=[7, 'hunter2']",
        ] {
            let error = error(&[flag]).expect("refused");
            assert!(error.contains("--set trace.") && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_header_is_a_line_that_is_not_quoted() {
        let with = |line: &str| {
            let headers = format!("trace.headers=[\"a: 1\", \"{line}\"]");
            error(&["trace.otlp=http://127.0.0.1:4318", &headers])
        };
        if !Tracer::IS_AVAILABLE {
            return;
        }
        for line in ["authorization: Bearer hunter2", "api-key:hunter2", "X-Scope: a:b", "empty:"] {
            assert_eq!(with(line), None, "{line}");
        }
        for (line, message) in [
            ("hunter2", "must be a name, a colon and a value"),
            (": hunter2", "has no valid header name before the colon"),
            ("api key: hunter2", "has no valid header name before the colon"),
            ("a: hunter2\u{7f}", "has an invalid value"),
            ("Content-Type: hunter2", "is a header that the server sets itself"),
        ] {
            let error = with(line).expect("refused");
            let expected = format!("`trace.headers[1]` (set by --set trace.headers): {message}");
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn a_collector_is_a_url() {
        if !Tracer::IS_AVAILABLE {
            return;
        }
        assert_eq!(error(&["trace.otlp=http://127.0.0.1:4318"]), None);
        for bad in ["localhost:4318", "ftp://a", "http://user:word@a"] {
            let error = error(&[&format!("trace.otlp={bad}")]).expect("no collector");
            assert!(error.contains("trace.otlp"), "{error}");
        }
        for (text, url) in [
            ("http://a:4318", "http://a:4318/v1/traces"),
            ("http://a:4318/", "http://a:4318/v1/traces"),
            ("https://[::1]", "https://[::1]/v1/traces"),
            ("https://a/otlp/v1/traces", "https://a/otlp/v1/traces"),
            ("https://a?key=1", "https://a?key=1"),
        ] {
            assert_eq!(traces_url(text), url);
        }
    }
}
