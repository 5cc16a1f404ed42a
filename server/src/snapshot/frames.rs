//! Records in a file: each has its kind, its length and a checksum before it.

use std::io::{self, Read, Write};

use minicbor::{Decode, Encode};
use ring::digest::{Context, SHA256};

use super::load::LoadError;

/// What every snapshot begins with.
pub(super) const MARK: &[u8; 16] = b"encke snapshot\r\n";

/// What a record is. Others are skipped.
pub(super) const HEADER: u8 = 1;
pub(super) const LOG: u8 = 2;
pub(super) const SESSION: u8 = 3;
pub(super) const END: u8 = 4;
pub(super) const ENDED: u8 = 5;
pub(super) const REVOKED: u8 = 6;
pub(super) const REMINDER: u8 = 7;
pub(super) const TELLING: u8 = 8;

const CHECKSUM_BYTES: usize = 8;

/// The first bytes of the SHA-256 of a record with what stands before it, which holds for accidents.
fn checksum(kind: u8, payload: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut digest = Context::new(&SHA256);
    digest.update(&[kind]);
    digest.update(&(payload.len() as u64).to_le_bytes());
    digest.update(payload);
    let digest = digest.finish();
    digest.as_ref().first_chunk().copied().expect("SHA-256 is longer")
}

/// Writes records.
pub(super) struct Writer<W> {
    out: W,
    buffer: Vec<u8>,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(mut out: W) -> io::Result<Self> {
        out.write_all(MARK)?;
        Ok(Self { out, buffer: Vec::new() })
    }

    pub(super) fn write(&mut self, kind: u8, record: &impl Encode<()>) -> io::Result<()> {
        self.buffer.clear();
        minicbor::encode(record, &mut self.buffer).expect("memory takes everything");
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

/// Bytes that a fuzzer has made, as the payloads of records that are whole.
#[cfg(feature = "fuzzing")]
pub(crate) fn framed<'a>(records: impl IntoIterator<Item = (u8, &'a [u8])>) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("memory takes everything");
    for (kind, payload) in records {
        writer.buffer = payload.to_vec();
        writer.write_bytes(kind).expect("memory takes everything");
    }
    writer.into_inner()
}

/// Reads records, one at a time. What a record claims to have is allocated only as far as it comes.
pub(super) struct Reader<R> {
    from: R,
    /// Where the next record begins.
    next: u64,
    /// Where this one does.
    at: u64,
    kind: u8,
    payload: Vec<u8>,
}

impl<R: Read> Reader<R> {
    pub(super) fn new(mut from: R) -> Result<Self, LoadError> {
        let mut mark = Vec::new();
        (&mut from).take(MARK.len() as u64).read_to_end(&mut mark)?;
        if mark != MARK {
            return Err(LoadError::Foreign);
        }
        Ok(Self { from, next: MARK.len() as u64, at: 0, kind: 0, payload: Vec::new() })
    }

    /// Goes to the next record. `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<u8>, LoadError> {
        let mut head = [0; 1 + 8 + CHECKSUM_BYTES];
        self.at = self.next;
        let mut got = 0;
        while got < head.len() {
            match self.from.read(&mut head[got..]) {
                Ok(0) if got == 0 => return Ok(None),
                Ok(0) => return Err(self.damaged("the file ends within it")),
                Ok(bytes) => got += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        let (length, expected) = head[1..].split_at(8);
        let length = u64::from_le_bytes(length.try_into().expect("split there"));
        self.kind = head[0];
        self.payload.clear();
        // Also a buffer that a large one has left does not stay for the small ones.
        self.payload.shrink_to(KEPT_BYTES);
        (&mut self.from).take(length).read_to_end(&mut self.payload)?;
        if (self.payload.len() as u64) < length {
            return Err(self.damaged("the file ends within it"));
        }
        if checksum(self.kind, &self.payload) != expected {
            return Err(self.damaged("its checksum is wrong"));
        }
        self.next = self.at + head.len() as u64 + length;
        Ok(Some(self.kind))
    }

    /// The record, as what it is.
    pub(super) fn decode<'a, T: Decode<'a, ()>>(&'a self) -> Result<T, LoadError> {
        minicbor::decode(&self.payload).map_err(|error| self.damaged(error))
    }

    /// Something is wrong with this record.
    pub(super) fn damaged(&self, problem: impl std::fmt::Display) -> LoadError {
        LoadError::Damaged { at: self.at, problem: problem.to_string() }
    }
}

const KEPT_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> Vec<u8> {
        let mut writer = Writer::new(Vec::new()).expect("memory");
        writer.write(LOG, &"one").expect("memory");
        writer.write(99, &7).expect("memory");
        writer.into_inner()
    }

    fn read(bytes: &[u8]) -> Result<Vec<u8>, LoadError> {
        let mut reader = Reader::new(bytes)?;
        let mut kinds = Vec::new();
        while let Some(kind) = reader.next()? {
            kinds.push(kind);
        }
        Ok(kinds)
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let bytes = written();
        assert_eq!(read(&bytes).expect("whole"), [LOG, 99]);
        let mut reader = Reader::new(&*bytes).expect("whole");
        reader.next().expect("whole");
        assert_eq!(reader.decode::<&str>().expect("text"), "one");
        let error = reader.decode::<u64>().expect_err("no number").to_string();
        assert!(error.starts_with("the record at byte 16: "), "{error}");
    }

    #[test]
    fn every_damage_is_found() {
        let whole = written();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            assert!(read(&bytes).is_err(), "byte {at}");
            // The end of a file between two records is for the last record to tell.
            let cut = read(&whole[..at]);
            assert!(cut.is_err() || at == 16 || at == 37, "cut at {at}: {cut:?}");
        }
    }

    #[test]
    fn a_length_that_lies_allocates_nothing() {
        let mut bytes = MARK.to_vec();
        bytes.push(LOG);
        bytes.extend(u64::MAX.to_le_bytes());
        bytes.extend([0; 20]);
        let error = read(&bytes).expect_err("there is not so much").to_string();
        assert_eq!(error, "the record at byte 16: the file ends within it");
    }
}
