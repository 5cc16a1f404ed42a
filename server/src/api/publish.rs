use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::channels::channel_name;
use super::routes::Call;
use crate::channel::{Full, Published};
use crate::http::body::parse;
use crate::http::reply::{ErrorBody, json};
use crate::http::{ApiError, Reply};
use crate::server::Shared;

/// Channels of one broadcast.
const MOST_CHANNELS: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Publish<'a> {
    channel: String,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Broadcast<'a> {
    channels: Vec<String>,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Serialize)]
struct Place<'a> {
    offset: u64,
    epoch: &'a str,
}

#[derive(Serialize)]
struct Results<'a> {
    /// In the order of the request.
    published: Vec<ResultFor<'a>>,
}

#[derive(Serialize)]
struct ResultFor<'a> {
    channel: &'a str,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Outcome {
    Published { offset: u64, epoch: String },
    Refused { error: ErrorBody },
}

/// `POST /api/publish`
pub(super) fn publish(call: &Call<'_>) -> Result<Reply, ApiError> {
    let request: Publish<'_> = parse(call.body)?;
    check_length(call.shared, request.data)?;
    let published = append(call.shared, &request.channel, request.data)?;
    Ok(json(&Place { offset: published.offset, epoch: published.channel.epoch() }))
}

/// `POST /api/broadcast`: the same message to each of some channels. One that is refused keeps it from no other.
pub(super) fn broadcast(call: &Call<'_>) -> Result<Reply, ApiError> {
    let request: Broadcast<'_> = parse(call.body)?;
    if !(1..=MOST_CHANNELS).contains(&request.channels.len()) {
        return Err(ApiError::bad_request(format!("channels must be from 1 to {MOST_CHANNELS}")));
    }
    check_length(call.shared, request.data)?;
    let published = request.channels.iter().map(|channel| ResultFor {
        channel,
        outcome: match append(call.shared, channel, request.data) {
            Ok(Published { channel, offset }) => {
                Outcome::Published { offset, epoch: channel.epoch().to_owned() }
            }
            Err(error) => Outcome::Refused { error: error.into_body() },
        },
    });
    Ok(json(&Results { published: published.collect() }))
}

/// A client could not have sent it either.
fn check_length(shared: &Shared, data: &RawValue) -> Result<(), ApiError> {
    let limit = shared.config.limits.max_message;
    if data.get().len() <= limit {
        return Ok(());
    }
    let message = format!("data has more than {limit} bytes (limits.max_message)");
    Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message))
}

fn append(shared: &Shared, channel: &str, data: &RawValue) -> Result<Published, ApiError> {
    let name = channel_name(shared, channel)?;
    Ok(shared.channels.publish(&name, data.get())?)
}

/// Not 409: nothing is wrong with the request. Channels that nobody uses go away, so it may succeed later.
impl From<Full> for ApiError {
    fn from(error: Full) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "limit", error.to_string())
    }
}
