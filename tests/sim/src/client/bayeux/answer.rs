//! Parses the messages and replies that a Bayeux client receives.

use std::fmt;

use serde_json::Value;

use crate::notices::Notice;
use crate::truth::{MAX_CHANNELS, log_of};

/// Channel of calls to the backend, and the data with which it answers.
pub(crate) const SERVICE: &str = "/service/none";
pub(crate) const SERVICE_DATA: u64 = 1;

/// Messages, then replies. Answers of the backend are left out.
pub(super) type Answer = (Vec<BayeuxMessage>, Vec<BayeuxReply>);

#[derive(Debug)]
pub(super) enum BayeuxMessage {
    /// A published message, given by its channel and its number.
    Data(usize, u64),
    /// A join or a leave.
    Notice(Notice),
}

#[derive(Debug)]
pub(crate) struct BayeuxReply(Value);

/// A gap reported in `ext.encke.gaps`.
#[derive(Debug)]
pub(super) struct ReportedGap {
    pub(super) channel: String,
    pub(super) epoch: String,
    pub(super) range: Option<(u64, u64)>,
}

pub(super) fn read(body: &str) -> Result<Answer, String> {
    let objects: Vec<Value> = serde_json::from_str(body).map_err(|error| format!("{error}: {body}"))?;
    let (mut messages, mut replies) = (Vec::new(), Vec::new());
    for object in objects {
        if object.get("successful").is_some() {
            replies.push(BayeuxReply(object));
            continue;
        }
        // The backend's answer to a call, which directly precedes its reply.
        if object["channel"] == SERVICE && object["data"] == SERVICE_DATA {
            continue;
        }
        if !replies.is_empty() {
            return Err(format!("a message after a reply: {object}"));
        }
        let message = BayeuxMessage::parse(&object);
        messages.push(message.ok_or_else(|| format!("neither a reply nor a message: {object}"))?);
    }
    Ok((messages, replies))
}

impl BayeuxMessage {
    fn parse(object: &Value) -> Option<Self> {
        let channel = log_of(object["channel"].as_str()?).filter(|channel| *channel < MAX_CHANNELS)?;
        if let Some(number) = object["data"][0].as_u64() {
            return Some(Self::Data(channel, number));
        }
        let stamp = &object["ext"]["encke"];
        let session = |kind: &str| stamp[kind]["session"].as_str();
        let (session, has_left) = match (session("joined"), session("left")) {
            (Some(session), None) => (session.to_owned(), false),
            (None, Some(session)) => (session.to_owned(), true),
            _ => return None,
        };
        let at_ms = stamp["at_ms"].as_u64()?;
        Some(Self::Notice(Notice { channel, has_left, session, at_ms }))
    }
}

impl BayeuxReply {
    pub(super) fn is_to(&self, channel: &str, id: u64) -> bool {
        self.0["channel"] == channel && self.0["id"] == *id.to_string()
    }

    pub(crate) fn successful(&self) -> bool {
        self.0["successful"] == true
    }

    /// Returns the error code (as defined by the Bayeux specification) of a failed reply.
    pub(super) fn code(&self) -> Option<&str> {
        self.0["error"].as_str()?.split(':').next()
    }

    pub(super) fn client_id(&self) -> Option<&str> {
        self.0["clientId"].as_str()
    }

    pub(super) fn ack(&self) -> Option<u64> {
        self.0["ext"]["ack"].as_u64()
    }

    pub(super) fn advises(&self, reconnect: &str) -> bool {
        self.0["advice"]["reconnect"] == reconnect
    }

    /// Returns whether the reply says that another page of the same browser already holds a request.
    pub(crate) fn advises_multiple_clients(&self) -> bool {
        self.0["advice"]["multiple-clients"] == true
    }

    pub(crate) fn interval(&self) -> Option<u64> {
        self.0["advice"]["interval"].as_u64()
    }

    pub(super) fn gaps(&self) -> Vec<ReportedGap> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let gap = |value: &Value| ReportedGap {
            channel: text(&value["channel"]),
            epoch: text(&value["epoch"]),
            range: value["from"].as_u64().zip(value["to"].as_u64()),
        };
        self.0["ext"]["encke"]["gaps"].as_array().into_iter().flatten().map(gap).collect()
    }
}

impl fmt::Display for BayeuxReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
