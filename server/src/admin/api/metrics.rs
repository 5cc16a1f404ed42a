use std::fmt::Write;

use hyper::StatusCode;
use hyper::header::{ACCEPT, HeaderMap, HeaderValue, VARY};

use crate::admin::context::Context;
use crate::admin::live::limits;
use crate::http::{Reply, reply};

const OPEN_METRICS: &str = "application/openmetrics-text";

/// `GET /metrics`: OpenMetrics for clients that prefer it, as Prometheus does, otherwise Prometheus's own text
/// format.
pub(super) fn show(headers: &HeaderMap, context: &Context) -> Reply {
    let text = metrics_text(context);
    let mut reply = if prefers_open_metrics(headers) {
        reply::with(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", text)
    } else {
        reply::with(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", to_text_format(&text))
    };
    reply.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    reply
}

/// Returns all metrics in the OpenMetrics text format.
pub(crate) fn metrics_text(context: &Context) -> String {
    context.client.metrics.encode(&context.readings(), &limits(context))
}

/// Whether the client names OpenMetrics in `Accept`, and prefers no other text to it (RFC 9110, section
/// 12.5.1).
fn prefers_open_metrics(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(ACCEPT).into_iter().filter_map(|line| line.to_str().ok());
    let ranges = lines.flat_map(|line| line.split(',')).map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
        (media_type, weight.unwrap_or(1.0))
    });
    let (mut open_metrics, mut text) = (0.0, 0.0_f32);
    for (media_type, weight) in ranges {
        if media_type.eq_ignore_ascii_case(OPEN_METRICS) {
            open_metrics = weight;
        } else if media_type.eq_ignore_ascii_case("text/plain") {
            text = text.max(weight);
        }
    }
    open_metrics > 0.0 && open_metrics >= text
}

/// Converts OpenMetrics into the text format 0.0.4 of Prometheus, in which a counter has the name of its
/// series.
fn to_text_format(open_metrics: &str) -> String {
    let (mut text, mut help) = (String::with_capacity(open_metrics.len()), "");
    for line in open_metrics.lines() {
        let written = if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest;
            Ok(())
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                _ => ("", kind),
            };
            let help = help.strip_prefix(name).unwrap_or_default();
            write!(text, "# HELP {name}{suffix}{help}\n# TYPE {name}{suffix} {kind}\n")
        } else if line.starts_with('#') {
            Ok(())
        } else {
            writeln!(text, "{line}")
        };
        written.expect("writing to a String does not fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_depends_on_accept() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;\
             version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, expected) in [
            (prometheus, true),
            ("application/openmetrics-text", true),
            ("text/plain, application/openmetrics-text;q=0.9", false),
            ("application/openmetrics-text;q=0", false),
            ("text/plain;version=0.0.4", false),
            ("*/*", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(prefers_open_metrics(&headers), expected, "{accept}");
        }
        assert!(!prefers_open_metrics(&HeaderMap::new()));
    }

    #[test]
    fn counters_have_the_names_of_their_series() {
        let open_metrics = "# HELP a Help of a.\n# TYPE a counter\n# UNIT a seconds\na_total{x=\"# y\"} 1\n\
             # HELP b B.\n# TYPE b histogram\nb_bucket{le=\"+Inf\"} 1\n# HELP c C.\n# TYPE c info\nc_info 1\n# EOF\n";
        let text = "# HELP a_total Help of a.\n# TYPE a_total counter\na_total{x=\"# y\"} 1\n\
             # HELP b B.\n# TYPE b histogram\nb_bucket{le=\"+Inf\"} 1\n\
             # HELP c_info C.\n# TYPE c_info gauge\nc_info 1\n";
        assert_eq!(to_text_format(open_metrics), text);
    }
}
