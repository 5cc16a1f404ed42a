//! Record framing of snapshot files: each record is preceded by its kind, length and checksum.

use std::io::{self, Read, Write};

use minicbor::{Decode, Encode};
use ring::digest::{Context, SHA256};

use super::error::LoadError;

/// Magic bytes at the start of every snapshot.
pub(super) const MAGIC: &[u8; 16] = b"encke snapshot\r\n";

/// Kinds of records. Unknown kinds are skipped.
pub(super) const HEADER: u8 = 1;
pub(super) const LOG: u8 = 2;
pub(super) const SESSION: u8 = 3;
pub(super) const END: u8 = 4;
pub(super) const ENDED: u8 = 5;
pub(super) const REVOKED: u8 = 6;
pub(super) const REMINDER: u8 = 7;
pub(super) const PRESENCE_CHANGE: u8 = 8;
pub(super) const POSITIONS: u8 = 9;

const CHECKSUM_BYTES: usize = 8;

/// Checksum of a record: the first bytes of the SHA-256 of its kind, length and payload. It detects
/// accidental damage only.
fn checksum(kind: u8, payload: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut digest = Context::new(&SHA256);
    digest.update(&[kind]);
    digest.update(&(payload.len() as u64).to_le_bytes());
    digest.update(payload);
    let digest = digest.finish();
    digest.as_ref().first_chunk().copied().expect("SHA-256 has 32 bytes")
}

pub(super) struct RecordWriter<W> {
    out: W,
    buffer: Vec<u8>,
}

impl<W: Write> RecordWriter<W> {
    pub(super) fn new(mut out: W) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        Ok(Self { out, buffer: Vec::new() })
    }

    pub(super) fn write(&mut self, kind: u8, record: &impl Encode<()>) -> io::Result<()> {
        self.buffer.clear();
        minicbor::encode(record, &mut self.buffer).expect("writing to memory cannot fail");
        self.write_bytes(kind)
    }

    fn write_bytes(&mut self, kind: u8) -> io::Result<()> {
        self.out.write_all(&[kind])?;
        self.out.write_all(&(self.buffer.len() as u64).to_le_bytes())?;
        self.out.write_all(&checksum(kind, &self.buffer))?;
        self.out.write_all(&self.buffer)
    }

    pub(super) fn into_inner(self) -> W {
        self.out
    }
}

/// Frames arbitrary payloads as valid records, for fuzzing.
#[cfg(feature = "fuzzing")]
pub(crate) fn frame_records<'a>(records: impl IntoIterator<Item = (u8, &'a [u8])>) -> Vec<u8> {
    let mut writer = RecordWriter::new(Vec::new()).expect("writing to memory cannot fail");
    for (kind, payload) in records {
        writer.buffer = payload.to_vec();
        writer.write_bytes(kind).expect("writing to memory cannot fail");
    }
    writer.into_inner()
}

/// Reads records one at a time. Memory is allocated only for bytes that are actually read, regardless of the
/// length that a record claims.
pub(super) struct RecordReader<R> {
    from: R,
    /// Offset of the next record.
    next: u64,
    /// Offset of the current record.
    at: u64,
    kind: u8,
    payload: Vec<u8>,
}

impl<R: Read> RecordReader<R> {
    pub(super) fn new(mut from: R) -> Result<Self, LoadError> {
        let mut mark = Vec::new();
        (&mut from).take(MAGIC.len() as u64).read_to_end(&mut mark)?;
        if mark != MAGIC {
            return Err(LoadError::NotASnapshot);
        }
        Ok(Self { from, next: MAGIC.len() as u64, at: 0, kind: 0, payload: Vec::new() })
    }

    /// Reads the next record and returns its kind. `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<u8>, LoadError> {
        let mut head = [0; 1 + 8 + CHECKSUM_BYTES];
        self.at = self.next;
        let mut got = 0;
        while got < head.len() {
            match self.from.read(&mut head[got..]) {
                Ok(0) if got == 0 => return Ok(None),
                Ok(0) => return Err(self.damaged("the file ends within the record")),
                Ok(bytes) => got += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        let (length, expected) = head[1..].split_at(8);
        let length = u64::from_le_bytes(length.try_into().expect("8 bytes"));
        self.kind = head[0];
        self.payload.clear();
        // Release the buffer of a large record instead of keeping it for small ones.
        self.payload.shrink_to(MAX_KEPT_CAPACITY);
        (&mut self.from).take(length).read_to_end(&mut self.payload)?;
        if (self.payload.len() as u64) < length {
            return Err(self.damaged("the file ends within the record"));
        }
        if checksum(self.kind, &self.payload) != expected {
            return Err(self.damaged("the checksum is wrong"));
        }
        self.next = self.at + head.len() as u64 + length;
        Ok(Some(self.kind))
    }

    /// Decodes the current record.
    pub(super) fn decode<'a, T: Decode<'a, ()>>(&'a self) -> Result<T, LoadError> {
        minicbor::decode(&self.payload).map_err(|error| self.damaged(error))
    }

    /// Creates an error about the current record.
    pub(super) fn damaged(&self, problem: impl std::fmt::Display) -> LoadError {
        LoadError::Damaged { at: self.at, problem: problem.to_string() }
    }
}

const MAX_KEPT_CAPACITY: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> Vec<u8> {
        let mut writer = RecordWriter::new(Vec::new()).expect("memory");
        writer.write(LOG, &"one").expect("memory");
        writer.write(99, &7).expect("memory");
        writer.into_inner()
    }

    fn read(bytes: &[u8]) -> Result<Vec<u8>, LoadError> {
        let mut reader = RecordReader::new(bytes)?;
        let mut kinds = Vec::new();
        while let Some(kind) = reader.next()? {
            kinds.push(kind);
        }
        Ok(kinds)
    }

    #[test]
    fn records_round_trip() {
        let bytes = written();
        assert_eq!(read(&bytes).expect("whole"), [LOG, 99]);
        let mut reader = RecordReader::new(&*bytes).expect("whole");
        reader.next().expect("whole");
        assert_eq!(reader.decode::<&str>().expect("text"), "one");
        let error = reader.decode::<u64>().expect_err("no number").to_string();
        assert!(error.starts_with("the record at byte 16: "), "{error}");
    }

    #[test]
    fn every_damage_is_detected() {
        let whole = written();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            assert!(read(&bytes).is_err(), "byte {at}");
            // A file that ends between two records is detected by the missing last record.
            let cut = read(&whole[..at]);
            assert!(cut.is_err() || at == 16 || at == 37, "cut at {at}: {cut:?}");
        }
    }

    #[test]
    fn a_false_length_allocates_nothing() {
        let mut bytes = MAGIC.to_vec();
        bytes.push(LOG);
        bytes.extend(u64::MAX.to_le_bytes());
        bytes.extend([0; 20]);
        let error = read(&bytes).expect_err("the file is shorter").to_string();
        assert_eq!(error, "the record at byte 16: the file ends within the record");
    }
}
