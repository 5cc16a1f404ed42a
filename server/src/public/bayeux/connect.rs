use std::sync::Arc;
use std::time::Duration;

use encke_core::close::{CloseCode, CloseReason};
use encke_core::dialect::Dialect;
use encke_core::dialect::bayeux::{Advice, Bayeux, ClientMessage, ConnectOptions};
use encke_core::session::{ConnectionKind, DeliveryMode, Heartbeat, Phase};

use super::browser;
use super::session::{RefusalReply, Requester, identity, refusal_reply};
use crate::admission::{BrowserPoll, Browsers};
use crate::auth::Identity;
use crate::client::bayeux::advice;
use crate::client::{Caller, Services};
use crate::connection::transport::poll::ConnectResponseWriter;
use crate::public::context::Context;
use crate::session::{Arrival, Attached, SessionCell, SessionRequest};

/// Kind of a WebSocket connection, which the server pings with frames.
pub(super) const WEBSOCKET: ConnectionKind = ConnectionKind::Stream(Heartbeat::Frame);

/// How long a page waits before it polls again while another page of the same browser has a poll held.
const MULTIPLE_CLIENTS_PAUSE: Duration = Duration::from_secs(2);

/// Attaches a request to its session. If the client has just ended that session, the reply says so, as the
/// reply to a held request would. `is_alone` is whether the request contains no other message. Returns the
/// writer of the response, and whether to respond immediately.
pub(super) fn connect(
    message: &ClientMessage<'_>,
    session: &SessionCell,
    requester: &Requester,
    is_alone: bool,
    has_ended: impl Fn() -> bool,
    context: &Context,
) -> Result<(Attached, Box<ConnectResponseWriter>, bool), RefusalReply> {
    let services = &*context.client;
    if session.phase() == Phase::Closed(CloseReason::Client) {
        return Err(refusal_reply(message, CloseCode::Normal, services));
    }
    let ConnectOptions { hold, acknowledged } = read(message, session)?;
    let identity = identity(message, session, requester, services)?;
    let is_first = !session.is_advised();
    let wanted = if is_alone { services.poll_hold(hold, session) } else { Duration::ZERO };
    let (hold, browser, advice) = match hold_for(wanted, session, requester, &context.bayeux.browsers) {
        Ok(browser) => (wanted, browser, is_first.then(|| advice(services))),
        Err(advice) => {
            session.note_pause();
            (Duration::ZERO, None, Some(advice))
        }
    };
    let kind = ConnectionKind::Poll { hold };
    let client = (&requester.caller, identity, acknowledged);
    let attached = attach(message, session, client, (kind, None), has_ended, services)?;
    session.mark_advised();
    let writer = ConnectResponseWriter::new(message.reply_to(), acknowledged, advice, browser);
    Ok((attached, Box::new(writer), hold.is_zero()))
}

/// Counts a request that will be held against its browser's limit. If the limit is reached, returns the
/// advice to send instead.
fn hold_for(
    hold: Duration,
    session: &SessionCell,
    requester: &Requester,
    browsers: &Arc<Browsers>,
) -> Result<Option<BrowserPoll>, Advice> {
    let browser = browser::id(&requester.headers).filter(|_| browsers.is_limited() && !hold.is_zero());
    let Some(browser) = browser else { return Ok(None) };
    match browsers.try_acquire(browser, session.id().number()) {
        Some(poll) => Ok(Some(poll)),
        None => Err(Advice { multiple_clients: true, ..Advice::pause(MULTIPLE_CLIENTS_PAUSE) }),
    }
}

/// Reads the options of a `/meta/connect` message.
fn read(message: &ClientMessage<'_>, session: &SessionCell) -> Result<ConnectOptions, RefusalReply> {
    let reply_to = message.reply_to();
    let bad = |error: &str| reply_to.reply().failed_with(400, error).to_json();
    let connect = message.connect().map_err(|error| bad(&error.to_string()))?;
    if connect.acknowledged.is_some_and(|seq| !session.may_have_sent(seq)) {
        return Err(reply_to.reply().ack_out_of_range().to_json());
    }
    Ok(connect)
}

/// Attaches a WebSocket to its session, because of a message that arrived at this time. Also returns the seq of
/// the last message that the client has received, if it acknowledges messages.
pub(super) fn resume(
    message: &ClientMessage<'_>,
    session: &SessionCell,
    requester: &Requester,
    (arrival, has_ended): (Arrival, bool),
    services: &Services,
) -> Result<(Attached, Option<u64>), RefusalReply> {
    let ConnectOptions { acknowledged, .. } = read(message, session)?;
    let identity = identity(message, session, requester, services)?;
    let caller = requester.caller.clone().with_arrival(arrival);
    let client = (&caller, identity, acknowledged);
    let kind = (WEBSOCKET, Some(requester.caller.arrival));
    let attached = attach(message, session, client, kind, || has_ended, services)?;
    Ok((attached, acknowledged))
}

/// Attaches a connection to its session. `acknowledged` is the last seq that the client has received, if it
/// acknowledges messages.
fn attach(
    message: &ClientMessage<'_>,
    session: &SessionCell,
    (caller, identity, acknowledged): (&Caller, Identity, Option<u64>),
    (kind, upgraded): (ConnectionKind, Option<Arrival>),
    has_ended: impl Fn() -> bool,
    services: &Services,
) -> Result<Attached, RefusalReply> {
    let wanted = SessionRequest {
        resume: Some(session.resume_token().expose().to_string()),
        seq: acknowledged,
        delivery: if acknowledged.is_some() { DeliveryMode::AtLeastOnce } else { DeliveryMode::AtMostOnce },
        only_resume: true,
        upgraded,
        ..SessionRequest::new(kind, Bayeux::NAME)
    };
    services
        .admit_identified(caller, identity, wanted, &[], has_ended)
        .map_err(|refusal| refusal.connect_reply(message.reply_to().reply(), session, services).to_json())
}
