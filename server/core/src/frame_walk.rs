//! Finds the ends of WebSocket frames (RFC 6455, section 5.2) from their headers alone. It does not validate
//! the frames.

/// Maximum length of a header: two bytes, an eight-byte length and a four-byte mask.
const MAX_HEADER_LEN: usize = 14;

/// Tracks frame boundaries in a byte stream that arrives in arbitrary chunks. Payloads are skipped, not
/// stored.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameWalk {
    /// The part of the current frame's header that has been read so far.
    header: [u8; MAX_HEADER_LEN],
    header_read: u8,
    /// Number of payload bytes of the current frame that have not arrived yet, once its header is complete.
    payload_left: u64,
    /// Total payload length of the completed fragments of a partial message.
    fragments: u64,
    /// Whether the last data frame was a fragment with more to follow.
    message_begun: bool,
}

/// Result of [`FrameWalk::advance`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// Number of bytes processed: all of them, unless the frame limit was reached first.
    pub bytes: usize,
    /// Number of these bytes up to the end of the last complete frame.
    pub whole: usize,
    /// Number of frames that were completed.
    pub frames: usize,
}

impl FrameWalk {
    /// Processes `bytes`, and stops after completing `frames` frames.
    pub fn advance(&mut self, bytes: &[u8], frames: usize) -> Walked {
        let mut walked = Walked::default();
        while walked.frames < frames && walked.bytes < bytes.len() {
            let rest = &bytes[walked.bytes..];
            walked.bytes += match short_frame(rest) {
                Some((length, payload)) if self.is_between_frames() => {
                    self.frame_ends(rest[0], payload);
                    length
                }
                _ if self.payload_left > 0 => self.skip_payload(rest),
                _ => self.read_header(rest),
            };
            if self.is_between_frames() {
                walked.whole = walked.bytes;
                walked.frames += 1;
            }
        }
        walked
    }

    /// Payload length of the current frame, once its header is complete.
    #[must_use]
    pub fn payload_len(&self) -> Option<u64> {
        let read = usize::from(self.header_read);
        (read > 1 && read == header_length(self.header[1])).then(|| self.payload_length())
    }

    /// Total payload length of the completed fragments of a partial message.
    #[must_use]
    pub fn partial_message_len(&self) -> u64 {
        self.fragments
    }

    /// Whether the next byte begins a frame.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        self.header_read == 0
    }

    /// Whether the next byte begins a message, or a control frame between messages.
    #[must_use]
    pub fn is_between_messages(&self) -> bool {
        self.is_between_frames() && !self.message_begun
    }

    fn skip_payload(&mut self, bytes: &[u8]) -> usize {
        let skipped = usize::try_from(self.payload_left).unwrap_or(usize::MAX).min(bytes.len());
        self.payload_left -= skipped as u64;
        self.end_if_whole();
        skipped
    }

    fn read_header(&mut self, bytes: &[u8]) -> usize {
        let read = usize::from(self.header_read);
        // The second byte determines the length of the header.
        let known = if read < 2 { 2 } else { header_length(self.header[1]) };
        let taken = (known - read).min(bytes.len());
        self.header[read..read + taken].copy_from_slice(&bytes[..taken]);
        self.header_read += u8::try_from(taken).expect("a header has at most 14 bytes");
        let read = read + taken;
        if read >= 2 && read == header_length(self.header[1]) {
            self.payload_left = self.payload_length();
            self.end_if_whole();
        }
        taken
    }

    fn end_if_whole(&mut self) {
        if self.payload_left == 0 {
            self.header_read = 0;
            self.frame_ends(self.header[0], self.payload_length());
        }
    }

    fn frame_ends(&mut self, first: u8, payload: u64) {
        let (is_last, is_control) = (first & 0x80 != 0, first & 0x08 != 0);
        // Control frames may appear between fragments.
        if !is_control {
            self.fragments = if is_last { 0 } else { self.fragments.saturating_add(payload) };
            self.message_begun = !is_last;
        }
    }

    fn payload_length(&self) -> u64 {
        let [_, short, long @ ..] = self.header;
        match short & 0x7f {
            126 => u64::from(u16::from_be_bytes([long[0], long[1]])),
            127 => u64::from_be_bytes(*long.first_chunk().expect("twelve bytes remain")),
            short => u64::from(short),
        }
    }
}

/// Returns the unmasked payload if `bytes` is exactly one masked pong frame with a payload of `LENGTH` bytes.
#[must_use]
pub fn lone_pong<const LENGTH: usize>(bytes: &[u8]) -> Option<[u8; LENGTH]> {
    const PONG: u8 = 0x8A;
    const MASKED: usize = 0x80;
    let [PONG, second, mask @ ..] = bytes else { return None };
    let (mask, payload) = mask.split_first_chunk::<4>()?;
    let mut payload: [u8; LENGTH] = payload.try_into().ok()?;
    for (byte, mask) in payload.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
    (LENGTH < 126 && usize::from(*second) == MASKED | LENGTH).then_some(payload)
}

/// Length of a header with this second byte.
fn header_length(second: u8) -> usize {
    let mask = if second & 0x80 == 0 { 0 } else { 4 };
    2 + mask
        + match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        }
}

/// Fast path for most frames: returns the lengths of the frame at the beginning of `bytes` and of its
/// payload, if the frame is short and complete.
fn short_frame(bytes: &[u8]) -> Option<(usize, u64)> {
    let [_, second, ..] = *bytes else { return None };
    let payload = usize::from(second & 0x7f);
    let length = header_length(second) + payload;
    (payload < 126 && length <= bytes.len()).then_some((length, payload as u64))
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    fn frame(payload: usize, masked: bool) -> Vec<u8> {
        let mask = if masked { 0x80 } else { 0 };
        let mut frame = vec![0x82];
        match payload {
            0..=125 => frame.push(mask | u8::try_from(payload).expect("it has at most 125 bytes")),
            126..=65_535 => {
                frame.push(mask | 126);
                frame.extend(u16::try_from(payload).expect("it fits").to_be_bytes());
            }
            _ => {
                frame.push(mask | 127);
                frame.extend((payload as u64).to_be_bytes());
            }
        }
        frame.extend(vec![0xff; if masked { 4 } else { 0 } + payload]);
        frame
    }

    #[test]
    fn frames_end_where_their_headers_say() {
        for payload in [0, 1, 125, 126, 65_535, 65_536] {
            for masked in [false, true] {
                let bytes = [frame(payload, masked), vec![0x81]].concat();
                let walked = FrameWalk::default().advance(&bytes, usize::MAX);
                let expected = Walked { bytes: bytes.len(), whole: bytes.len() - 1, frames: 1 };
                assert_eq!(walked, expected, "{payload}, {masked}");
            }
        }
    }

    #[test]
    fn advance_stops_at_the_frame_limit() {
        let bytes = [frame(3, true), frame(0, true), frame(5, true)].concat();
        let mut walk = FrameWalk::default();
        assert_eq!(walk.advance(&bytes, 2), Walked { bytes: 15, whole: 15, frames: 2 });
        assert_eq!(walk.advance(&bytes[15..], 0), Walked::default());
        assert_eq!(walk.advance(&bytes[15..], 2), Walked { bytes: 11, whole: 11, frames: 1 });
    }

    #[test]
    fn payload_len_is_known_with_the_header() {
        let bytes = frame(70_000, true);
        let mut walk = FrameWalk::default();
        for (at, byte) in bytes.iter().take(100).enumerate() {
            assert_eq!(walk.payload_len(), (at >= 14).then_some(70_000), "before byte {at}");
            walk.advance(&[*byte], 1);
        }
        let mut walk = FrameWalk::default();
        walk.advance(&[0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1], 1);
        assert_eq!(walk.payload_len(), Some(u64::MAX));
    }

    #[test]
    fn a_message_is_partial_until_its_last_fragment() {
        let begun = |opcode: u8, payload| {
            let mut frame = frame(payload, true);
            frame[0] = opcode;
            frame
        };
        let mut walk = FrameWalk::default();
        for (opcode, payload, expected) in [
            (0x81, 5, 0),
            (0x01, 100, 100),
            (0x00, 300, 400),
            // A ping between fragments.
            (0x89, 7, 400),
            (0x00, 0, 400),
            (0x00, 70_000, 70_400),
            (0x80, 1, 0),
        ] {
            let bytes = begun(opcode, payload);
            let (half, rest) = bytes.split_at(bytes.len() / 2);
            let before = walk.partial_message_len();
            walk.advance(half, 1);
            assert_eq!(walk.partial_message_len(), before, "{opcode:#x}");
            walk.advance(rest, 1);
            assert_eq!(walk.partial_message_len(), expected, "{opcode:#x}");
        }
    }

    #[test]
    fn a_message_that_begins_with_an_empty_fragment_has_begun() {
        let mut walk = FrameWalk::default();
        for (first, expected) in [(0x01, false), (0x8A, false), (0x00, false), (0x80, true), (0x81, true)] {
            let mut frame = frame(0, true);
            frame[0] = first;
            walk.advance(&frame, 1);
            assert_eq!(walk.is_between_messages(), expected, "after {first:#x}");
        }
    }

    #[test]
    fn a_lone_pong_is_a_pong_and_nothing_else() {
        let pong = [0x8A, 0x88, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 5];
        assert_eq!(lone_pong(&pong), Some([0, 0, 0, 0, 0, 0, 0, 1]));
        assert_eq!(lone_pong::<7>(&pong), None);
        for length in 0..pong.len() {
            assert_eq!(lone_pong::<8>(&pong[..length]), None, "only {length} bytes");
        }
        assert_eq!(lone_pong::<8>(&[&pong[..], &[0x81]].concat()), None, "another frame begins");
        for (at, byte) in [(0, 0x89), (0, 0x0A), (0, 0xCA), (1, 0x08), (1, 0x87), (1, 0x89)] {
            let mut other = pong;
            other[at] = byte;
            assert_eq!(lone_pong::<8>(&other), None, "byte {at} is {byte:#x}");
        }
    }

    #[test]
    fn chunk_boundaries_do_not_matter() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut rng = SmallRng::seed_from_u64(seed);
        for _ in 0..200 {
            let mut ends = vec![0];
            let mut bytes = Vec::new();
            for _ in 0..rng.random_range(1..20) {
                let payload = [0, 1, 120, 130, 300, 66_000][rng.random_range(0..6)];
                bytes.extend(frame(payload, rng.random_bool(0.9)));
                ends.push(bytes.len());
            }
            let (mut walk, mut at, mut ended) = (FrameWalk::default(), 0, 0);
            while at < bytes.len() {
                let longest = 1 << rng.random_range(1..17);
                let piece = rng.random_range(1..=longest.min(bytes.len() - at));
                let walked = walk.advance(&bytes[at..at + piece], rng.random_range(1..10));
                ended += walked.frames;
                if walked.frames > 0 {
                    assert_eq!(at + walked.whole, ends[ended]);
                }
                at += walked.bytes;
                assert!(ends[ended] <= at && ends.get(ended + 1).is_none_or(|next| at < *next));
            }
            assert_eq!(ended + 1, ends.len());
        }
    }
}
