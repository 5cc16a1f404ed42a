//! What a client of Bayeux reads in an answer.

use std::fmt;

use serde_json::Value;

/// The channel of a message, and the number in it.
pub(crate) type Event = (String, u64);

/// An answer: messages of channels, then replies.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) events: Vec<Event>,
    /// All replies but the last.
    pub(crate) before: Vec<Reply>,
    /// The last.
    pub(crate) reply: Reply,
}

/// A reply.
#[derive(Debug)]
pub(crate) struct Reply(Value);

/// Messages that are missing.
#[derive(Debug)]
pub(crate) struct Gap {
    pub(crate) channel: String,
    pub(crate) epoch: String,
    pub(crate) range: Option<(u64, u64)>,
}

impl Heard {
    /// Reads a whole answer.
    pub(crate) fn read(body: &str) -> Result<Self, String> {
        let (events, mut before) = Self::read_text(body)?;
        let reply = before.pop().ok_or_else(|| format!("no reply: {body}"))?;
        Ok(Self { events, before, reply })
    }

    /// Reads an array: the channels of messages and the numbers in them, and replies.
    pub(super) fn read_text(body: &str) -> Result<(Vec<Event>, Vec<Reply>), String> {
        let messages: Vec<Value> = serde_json::from_str(body).map_err(|error| format!("{error}: {body}"))?;
        let (mut events, mut replies) = (Vec::new(), Vec::new());
        for message in messages {
            if message.get("successful").is_some() {
                replies.push(Reply(message));
                continue;
            }
            if !replies.is_empty() {
                return Err(format!("a message after a reply: {message}"));
            }
            let number = message["data"][0].as_u64();
            let (channel, number) = message["channel"]
                .as_str()
                .zip(number)
                .ok_or_else(|| format!("neither a reply nor a message: {message}"))?;
            events.push((channel.to_owned(), number));
        }
        Ok((events, replies))
    }
}

impl Reply {
    pub(crate) fn is_to(&self, channel: &str, id: u64) -> bool {
        self.0["channel"] == channel && self.0["id"] == *id.to_string()
    }

    pub(crate) fn successful(&self) -> bool {
        self.0["successful"] == true
    }

    /// The code of the specification, if it failed.
    pub(crate) fn code(&self) -> Option<&str> {
        self.0["error"].as_str()?.split(':').next()
    }

    pub(crate) fn client_id(&self) -> Option<&str> {
        self.0["clientId"].as_str()
    }

    pub(crate) fn ack(&self) -> Option<u64> {
        self.0["ext"]["ack"].as_u64()
    }

    pub(crate) fn says_to(&self, reconnect: &str) -> bool {
        self.0["advice"]["reconnect"] == reconnect
    }

    /// Another page of its browser has a request held.
    pub(crate) fn is_one_of_many(&self) -> bool {
        self.0["advice"]["multiple-clients"] == true
    }

    pub(crate) fn interval(&self) -> Option<u64> {
        self.0["advice"]["interval"].as_u64()
    }

    pub(crate) fn gaps(&self) -> Vec<Gap> {
        let gaps = self.0["ext"]["encke"]["gaps"].as_array();
        gaps.into_iter().flatten().map(Gap::of).collect()
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Gap {
    fn of(value: &Value) -> Self {
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        Self {
            channel: text("channel"),
            epoch: text("epoch"),
            range: value["from"].as_u64().zip(value["to"].as_u64()),
        }
    }
}
