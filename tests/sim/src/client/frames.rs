//! WebSocket frames: writes the client's masked frames, and parses the server's frames.

use std::io::Cursor;

use tungstenite::protocol::frame::coding::{Control, Data, OpCode};
use tungstenite::protocol::frame::{Frame, FrameHeader};

pub(super) const TEXT: OpCode = OpCode::Data(Data::Text);
pub(super) const BINARY: OpCode = OpCode::Data(Data::Binary);
pub(super) const CLOSE: OpCode = OpCode::Control(Control::Close);
pub(super) const PING: OpCode = OpCode::Control(Control::Ping);
pub(super) const PONG: OpCode = OpCode::Control(Control::Pong);

/// Masking key. A constant suffices, because the attack that masking prevents does not exist in this
/// simulation.
const MASK: [u8; 4] = [0x37, 0xFA, 0x21, 0x3D];

/// Encodes an unfragmented, masked frame.
pub(super) fn encode(opcode: OpCode, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader { opcode, mask: Some(MASK), ..FrameHeader::default() };
    let mut bytes = Vec::new();
    let frame = Frame::from_payload(header, payload.to_vec().into());
    frame.format(&mut bytes).expect("writing to memory succeeds");
    bytes
}

/// Opcode and payload of a frame from the server, and the length of the frame.
type ServerFrame<'a> = (OpCode, &'a [u8], usize);

/// Parses the first frame in `bytes`. Returns `None` if it is incomplete.
pub(super) fn read(bytes: &[u8]) -> Result<Option<ServerFrame<'_>>, String> {
    let mut cursor = Cursor::new(bytes);
    let Some((header, length)) = FrameHeader::parse(&mut cursor).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let opcode = header.opcode;
    if header != (FrameHeader { opcode, ..FrameHeader::default() }) {
        return Err(format!("a frame with the head {header:?}"));
    }
    let head = usize::try_from(cursor.position()).expect("a position in memory");
    let length = usize::try_from(length).map_err(|error| error.to_string())?;
    Ok(bytes[head..].get(..length).map(|payload| (opcode, payload, head + length)))
}
