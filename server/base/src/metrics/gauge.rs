/// Converts a count to the value of a gauge.
pub(super) fn as_gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
