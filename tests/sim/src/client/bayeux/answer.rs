//! Parses the messages and replies that a Bayeux client receives.

use std::fmt;

use serde_json::Value;

/// Channel and number of a received message.
pub(crate) type ReceivedMessage = (String, u64);

/// The content of a response: messages, then replies.
#[derive(Debug)]
pub(crate) struct BayeuxAnswer {
    pub(crate) events: Vec<ReceivedMessage>,
    /// All replies except the last.
    pub(crate) before: Vec<BayeuxReply>,
    pub(crate) reply: BayeuxReply,
}

#[derive(Debug)]
pub(crate) struct BayeuxReply(Value);

/// A gap reported in `ext.encke.gaps`.
#[derive(Debug)]
pub(crate) struct ReportedGap {
    pub(crate) channel: String,
    pub(crate) epoch: String,
    pub(crate) range: Option<(u64, u64)>,
}

impl BayeuxAnswer {
    /// Parses a complete response.
    pub(crate) fn read(body: &str) -> Result<Self, String> {
        let (events, mut before) = Self::read_text(body)?;
        let reply = before.pop().ok_or_else(|| format!("no reply: {body}"))?;
        Ok(Self { events, before, reply })
    }

    /// Parses an array of messages and replies.
    pub(super) fn read_text(body: &str) -> Result<(Vec<ReceivedMessage>, Vec<BayeuxReply>), String> {
        let messages: Vec<Value> = serde_json::from_str(body).map_err(|error| format!("{error}: {body}"))?;
        let (mut events, mut replies) = (Vec::new(), Vec::new());
        for message in messages {
            if message.get("successful").is_some() {
                replies.push(BayeuxReply(message));
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

impl BayeuxReply {
    pub(crate) fn is_to(&self, channel: &str, id: u64) -> bool {
        self.0["channel"] == channel && self.0["id"] == *id.to_string()
    }

    pub(crate) fn successful(&self) -> bool {
        self.0["successful"] == true
    }

    /// Returns the error code (as defined by the Bayeux specification) of a failed reply.
    pub(crate) fn code(&self) -> Option<&str> {
        self.0["error"].as_str()?.split(':').next()
    }

    pub(crate) fn client_id(&self) -> Option<&str> {
        self.0["clientId"].as_str()
    }

    pub(crate) fn ack(&self) -> Option<u64> {
        self.0["ext"]["ack"].as_u64()
    }

    pub(crate) fn advises(&self, reconnect: &str) -> bool {
        self.0["advice"]["reconnect"] == reconnect
    }

    /// Returns whether the reply says that another page of the same browser already holds a request.
    pub(crate) fn advises_multiple_clients(&self) -> bool {
        self.0["advice"]["multiple-clients"] == true
    }

    pub(crate) fn interval(&self) -> Option<u64> {
        self.0["advice"]["interval"].as_u64()
    }

    pub(crate) fn gaps(&self) -> Vec<ReportedGap> {
        let gaps = self.0["ext"]["encke"]["gaps"].as_array();
        gaps.into_iter().flatten().map(ReportedGap::of).collect()
    }
}

impl fmt::Display for BayeuxReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl ReportedGap {
    fn of(value: &Value) -> Self {
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        Self {
            channel: text("channel"),
            epoch: text("epoch"),
            range: value["from"].as_u64().zip(value["to"].as_u64()),
        }
    }
}
