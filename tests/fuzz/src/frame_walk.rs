//! Fuzzes the frame walk. Its results must not depend on how the stream is split, and must equal those of a
//! model that parses each frame separately.

use encke_core::frame_walk::FrameWalk;

use crate::pieces::cut;
use crate::rfc6455::FrameHeader;

/// Walks a stream of frames. The first byte of the input determines how the stream is split, the second how
/// many frames to request at a time.
///
/// # Panics
/// If the walk and the model disagree.
pub fn run(input: &[u8]) {
    let [how, most, stream @ ..] = input else { return };
    let most = usize::from(*most % 8) + 1;
    let ends = ends(stream);
    let (mut walk, mut at, mut ended) = (FrameWalk::default(), 0, 0);
    for piece in cut(stream, *how) {
        let mut rest = piece;
        while !rest.is_empty() {
            let walked = walk.advance(rest, most);
            assert!(walked.frames <= most && walked.whole <= walked.bytes && walked.bytes <= rest.len());
            ended += walked.frames;
            if walked.frames > 0 {
                assert_eq!(
                    Some(at + walked.whole),
                    ended.checked_sub(1).map(|last| ends[last]),
                    "not the end of a frame"
                );
            }
            assert!(walked.bytes == rest.len() || walked.frames == most, "stopped too early");
            at += walked.bytes;
            rest = &rest[walked.bytes..];
            check_position(&walk, stream, &ends, ended, at);
        }
    }
    assert_eq!((at, ended), (stream.len(), ends.len()), "not all bytes were walked");
}

/// Checks the state of the walk after `at` bytes and `ended` complete frames.
fn check_position(walk: &FrameWalk, stream: &[u8], ends: &[usize], ended: usize, at: usize) {
    let begun = ended.checked_sub(1).map_or(0, |last| ends[last]);
    assert!(begun <= at && ends.get(ended).is_none_or(|next| at < *next), "{ended} frames in {at} bytes");
    assert_eq!(walk.is_between_frames(), begun == at);
    let announced = FrameHeader::read(&stream[begun..at]).map(|header| header.payload);
    assert_eq!(walk.payload_len(), announced, "after {at} bytes");
}

/// Returns the positions at which frames end.
fn ends(stream: &[u8]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut at = 0;
    while let Some(header) = FrameHeader::read(&stream[at..]) {
        let length =
            usize::try_from(header.payload).ok().and_then(|payload| payload.checked_add(header.length));
        match length.and_then(|length| at.checked_add(length)).filter(|end| *end <= stream.len()) {
            Some(end) => at = end,
            None => break,
        }
        ends.push(at);
    }
    ends
}
