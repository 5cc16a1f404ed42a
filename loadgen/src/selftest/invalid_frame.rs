//! Invalid frames. Each violates one rule of RFC 6455 for servers.

/// Invalid frame that a server can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InvalidFrame {
    ReservedBits,
    UnknownOpcode,
    Masked,
    LongForm,
    HighestBit,
    FragmentedControl,
    LongControl,
    StrayContinuation,
    MessageWithinMessage,
    HalfCloseCode,
    CloseCode,
    NotUtf8,
    FragmentedNotUtf8,
    TooBig,
}

/// Ping frame with a payload of 126 bytes, one more than allowed.
const LONG_PING: [u8; 4 + 126] = {
    let mut frame = [0; 4 + 126];
    (frame[0], frame[1], frame[3]) = (0x89, 126, 126);
    frame
};

impl InvalidFrame {
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::ReservedBits => "sends a frame with a reserved bit set",
            Self::UnknownOpcode => "sends a frame with an unknown opcode",
            Self::Masked => "sends a masked frame",
            Self::LongForm => "encodes a length in more bytes than needed",
            Self::HighestBit => "sends a length with its highest bit set",
            Self::FragmentedControl => "sends a ping in fragments",
            Self::LongControl => "sends a ping of 126 bytes",
            Self::StrayContinuation => "continues a message that was never begun",
            Self::MessageWithinMessage => "begins a message within another",
            Self::HalfCloseCode => "closes with half a close code",
            Self::CloseCode => "closes with a forbidden code",
            Self::NotUtf8 => "sends text that is not UTF-8",
            Self::FragmentedNotUtf8 => "sends text that is not UTF-8, in fragments",
            Self::TooBig => "announces a message of a terabyte",
        }
    }

    pub(super) fn bytes(self) -> &'static [u8] {
        match self {
            Self::ReservedBits => b"\xC1\x02{}",
            Self::UnknownOpcode => b"\x83\x02{}",
            Self::Masked => b"\x81\x82\0\0\0\0{}",
            Self::LongForm => b"\x81\x7E\0\x02{}",
            Self::HighestBit => b"\x81\x7F\x80\0\0\0\0\0\0\x02{}",
            Self::FragmentedControl => b"\x09\x01x\x80\x01x",
            Self::LongControl => &LONG_PING,
            Self::StrayContinuation => b"\x80\x02{}",
            Self::MessageWithinMessage => b"\x01\x01{\x81\x02{}",
            Self::HalfCloseCode => b"\x88\x01\x03",
            // 1006 means that there was no Close frame.
            Self::CloseCode => b"\x88\x02\x03\xEE",
            Self::NotUtf8 => b"\x81\x04\"\xC3\x28\"",
            // The message ends after the first byte of a two-byte character.
            Self::FragmentedNotUtf8 => b"\x01\x02\"\xC3\x80\x01\"",
            Self::TooBig => b"\x81\x7F\0\0\x01\0\0\0\0\0{}",
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio_tungstenite::tungstenite::error::CapacityError;
    use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
    use tokio_tungstenite::tungstenite::{Error, WebSocket};

    use super::super::cases::CASES;
    use super::super::fault::Fault;
    use super::InvalidFrame;

    /// A stream that contains only these bytes.
    struct Bytes(&'static [u8]);

    impl std::io::Read for Bytes {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl std::io::Write for Bytes {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Frames that a general-purpose library accepts: lengths in any form, and an invalid close code, which
    /// it answers with 1002.
    const ACCEPTED_BY_LIBRARY: [InvalidFrame; 2] = [InvalidFrame::LongForm, InvalidFrame::CloseCode];

    /// Checks the frames with another WebSocket client.
    #[test]
    fn a_library_rejects_the_frames_too() {
        let frames = CASES.iter().filter_map(|case| match case.fault {
            Fault::SendsInvalidFrameForPing(frame) | Fault::SendsInvalidFrameForHello(frame) => Some(frame),
            _ => None,
        });
        let mut count = 0;
        for frame in frames.filter(|frame| !ACCEPTED_BY_LIBRARY.contains(frame)) {
            let config =
                WebSocketConfig::default().max_message_size(Some(1 << 20)).max_frame_size(Some(1 << 20));
            let mut client = WebSocket::from_raw_socket(Bytes(frame.bytes()), Role::Client, Some(config));
            let error = (0..3).find_map(|_| client.read().err()).expect("the bytes run out");
            let is_rejected = matches!(
                &error,
                Error::Protocol(_) | Error::Utf8(_) | Error::Capacity(CapacityError::MessageTooLong { .. })
            );
            assert!(is_rejected, "{frame:?}: {error:?}");
            count += 1;
        }
        assert!(count >= 12);
    }
}
