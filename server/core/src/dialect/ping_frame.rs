/// Payload of an RFC 6455 ping frame in every dialect: `seq` as eight bytes, big-endian.
#[must_use]
pub const fn ping_payload(seq: u64) -> [u8; 8] {
    seq.to_be_bytes()
}

/// Returns the `seq` that a pong frame repeats; `None` for an unsolicited pong, which RFC 6455 allows.
#[must_use]
pub fn pong_seq(payload: &[u8]) -> Option<u64> {
    payload.try_into().ok().map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pong_echoes_the_seq_of_its_ping() {
        assert_eq!(pong_seq(&ping_payload(0x0102)), Some(0x0102));
        assert_eq!(ping_payload(1), [0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(pong_seq(b""), None);
        assert_eq!(pong_seq(b"123456789"), None);
    }
}
