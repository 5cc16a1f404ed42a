/// Authentication scheme, which is case-insensitive (RFC 9110, section 11.1), and the space after it.
const SCHEME: &[u8] = b"Bearer ";

/// Returns the credentials in the value of an `Authorization` header, if its scheme is `Bearer` (RFC 6750,
/// section 2.1).
pub(crate) fn bearer(authorization: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = authorization.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}
