use std::borrow::Cow;

/// A message as all its readers get it: everything after its `seq`, which is each reader's own.
///
/// `{"message":{"seq":57,` and then `"channel":"news","offset":42,"data":{"any":"json"}}}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedMessage {
    tail: Box<str>,
    /// Where in the tail the data begins.
    data_at: u32,
}

const HEAD: &str = r#"{"message":{"seq":"#;
const TAIL_END: &str = "}}";

impl SharedMessage {
    /// Message number `offset` of a channel.
    #[must_use]
    pub fn new(channel: &str, offset: u64, data: &CompactJson<'_>) -> Self {
        let channel = serde_json::to_string(channel).expect("strings serialize");
        let mut tail = format!(r#","channel":{channel},"offset":{offset},"data":"#);
        let data_at = u32::try_from(tail.len()).expect("names are limited, far below 4 GiB");
        tail.push_str(data.as_str());
        tail.push_str(TAIL_END);
        Self { tail: tail.into_boxed_str(), data_at }
    }

    /// What was published.
    #[must_use]
    pub fn data(&self) -> &str {
        &self.tail[self.data_at as usize..self.tail.len() - TAIL_END.len()]
    }

    /// The length of the object under this `seq`, in bytes.
    #[must_use]
    pub fn len_with(&self, seq: u64) -> usize {
        HEAD.len() + seq.checked_ilog10().map_or(1, |log| log as usize + 1) + self.tail.len()
    }

    /// Appends the object.
    pub fn write_with(&self, seq: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(HEAD.as_bytes());
        out.extend_from_slice(itoa::Buffer::new().format(seq).as_bytes());
        out.extend_from_slice(self.tail.as_bytes());
    }

    /// What it takes up, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.tail.len()
    }
}

/// JSON text without the white space between its tokens.
#[derive(Clone, Debug)]
pub struct CompactJson<'a>(Cow<'a, str>);

impl<'a> CompactJson<'a> {
    /// `json` must be JSON; what is inside its strings stays.
    #[must_use]
    pub fn of(json: &'a str) -> Self {
        let mut kept = Kept::default();
        if json.chars().all(|char| kept.keeps(char)) {
            return Self(Cow::Borrowed(json));
        }
        let mut kept = Kept::default();
        Self(Cow::Owned(json.chars().filter(|char| kept.keeps(*char)).collect()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether each of the characters of a JSON text belongs to it.
#[derive(Default)]
struct Kept {
    in_string: bool,
    escaped: bool,
}

impl Kept {
    fn keeps(&mut self, char: char) -> bool {
        if self.in_string {
            self.in_string = self.escaped || char != '"';
            self.escaped = !self.escaped && char == '\\';
            return true;
        }
        self.in_string = char == '"';
        !matches!(char, ' ' | '\t' | '\n' | '\r')
    }
}
