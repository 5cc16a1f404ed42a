use std::sync::Arc;
use std::time::Duration;

use encke_core::close::{CloseCode, CloseReason};
use encke_core::dialect::Dialect;
use encke_core::dialect::bayeux::{Advice, Bayeux, ClientMessage, Connect, Reply};
use encke_core::session::{ConnectionKind, Delivery, Heartbeat, Phase};

use super::session::{Refused, identity, told};
use crate::admission::{BrowserId, BrowserPoll, Browsers};
use crate::auth::Identity;
use crate::client::bayeux::{advice, retry};
use crate::client::{Caller, Context};
use crate::session::{AttachRequest, Attached, Refusal, SessionCell};

/// A WebSocket, on which the server pings.
pub(super) const WEBSOCKET: ConnectionKind = ConnectionKind::Stream(Heartbeat::Frame);

/// How long a page waits before it asks again, while another page of its browser has a request held.
const MULTIPLE_CLIENTS_PAUSE: Duration = Duration::from_secs(2);

/// A request for what is new, and its session.
pub(super) struct Connecting {
    pub(super) attached: Attached,
    /// It is answered at once.
    pub(super) is_due: bool,
    pub(super) acknowledged: Option<u64>,
    pub(super) advice: Option<Advice>,
    pub(super) browser: Option<BrowserPoll>,
}

/// What a request says besides the message.
pub(super) struct Circumstances<'a> {
    pub(super) caller: &'a Caller,
    pub(super) query_token: Option<&'a str>,
    /// It has no other message.
    pub(super) is_alone: bool,
    pub(super) browser: Option<BrowserId>,
    pub(super) browsers: &'a Arc<Browsers>,
}

/// Gives a request its session, which its client may have ended just now: then the reply says that it is over, as one that was held does.
pub(super) fn connect(
    message: &ClientMessage<'_>,
    session: &SessionCell,
    circumstances: &Circumstances<'_>,
    has_ended: impl Fn() -> bool,
    context: &Context,
) -> Result<Connecting, Refused> {
    if session.phase() == Phase::Closed(CloseReason::Client) {
        return Err(told(message, CloseCode::Normal, context));
    }
    let Connect { hold, acknowledged } = read(message, session)?;
    let identity = identity(message, session, (circumstances.caller, circumstances.query_token), context)?;
    let is_first = !session.is_advised();
    let wanted = if circumstances.is_alone { context.hold_for(hold, session) } else { Duration::ZERO };
    let (hold, browser, told_advice) = match hold_for(wanted, session, circumstances) {
        Ok(browser) => (wanted, browser, is_first.then(|| advice(context))),
        Err(advice) => {
            session.advise_pause(true);
            (Duration::ZERO, None, Some(advice))
        }
    };
    let kind = ConnectionKind::Poll { hold };
    let request = request(session, acknowledged, identity, kind, circumstances.caller);
    let attached = attach(message, session, request, has_ended, context)?;
    session.advise_all();
    Ok(Connecting { attached, is_due: hold.is_zero(), acknowledged, advice: told_advice, browser })
}

/// Counts a request that is to be held for its browser. If that has too many, the advice says what to do instead.
fn hold_for(
    hold: Duration,
    session: &SessionCell,
    circumstances: &Circumstances<'_>,
) -> Result<Option<BrowserPoll>, Advice> {
    let Some(browser) = circumstances.browser.filter(|_| !hold.is_zero()) else { return Ok(None) };
    match circumstances.browsers.hold(browser, session.id().number()) {
        Some(poll) => Ok(Some(poll)),
        None => Err(Advice { multiple_clients: true, ..Advice::pause(MULTIPLE_CLIENTS_PAUSE) }),
    }
}

/// What a connect asks for.
fn read(message: &ClientMessage<'_>, session: &SessionCell) -> Result<Connect, Refused> {
    let reply_to = message.reply_to();
    let bad = |error: &str| reply_to.reply().failed_with(400, error).to_json();
    let connect = message.connect().map_err(|error| bad(&error.to_string()))?;
    if connect.acknowledged.is_some_and(|seq| seq > session.seq()) {
        return Err(reply_to.reply().beyond_what_was_sent().to_json());
    }
    Ok(connect)
}

/// Gives a WebSocket its session. Returns the last message that its client has, if it acknowledges.
pub(super) fn resume(
    message: &ClientMessage<'_>,
    session: &SessionCell,
    (caller, query_token): (&Caller, Option<&str>),
    has_ended: bool,
    context: &Context,
) -> Result<(Attached, Option<u64>), Refused> {
    let Connect { acknowledged, .. } = read(message, session)?;
    let identity = identity(message, session, (caller, query_token), context)?;
    let request = request(session, acknowledged, identity, WEBSOCKET, caller);
    let attached = attach(message, session, request, || has_ended, context)?;
    Ok((attached, acknowledged))
}

/// A connection of this kind, whose client may say what it has.
fn request(
    session: &SessionCell,
    acknowledged: Option<u64>,
    identity: Identity,
    kind: ConnectionKind,
    caller: &Caller,
) -> AttachRequest {
    AttachRequest {
        resume: Some(session.resume_token().expose().to_string()),
        seq: acknowledged,
        identity,
        address: caller.address,
        kind,
        dialect: Bayeux::NAME,
        delivery: if acknowledged.is_some() { Delivery::AtLeastOnce } else { Delivery::AtMostOnce },
        may_open: false,
        only_resume: true,
    }
}

fn attach(
    message: &ClientMessage<'_>,
    session: &SessionCell,
    request: AttachRequest,
    has_ended: impl Fn() -> bool,
    context: &Context,
) -> Result<Attached, Refused> {
    let reply_to = message.reply_to();
    context.attach(request.address, |_| request, has_ended).map_err(|refusal| match refusal {
        Refusal::NotTheUser => told(message, CloseCode::Unauthorized, context),
        Refusal::Draining => told(message, CloseCode::Draining, context),
        Refusal::Ended(code) => told(message, code, context),
        Refusal::Late => {
            session.advise_pause(true);
            told(message, CloseCode::Replaced, context)
        }
        Refusal::Gone => reply_to.reply().of_no_session().to_json(),
        Refusal::Moved => {
            session.advise_pause(true);
            told(message, CloseCode::Moved, context)
        }
        // The session is still there.
        Refusal::TooManyConnections | Refusal::TooManySessions | Refusal::TooFast => {
            session.advise_pause(true);
            let retry = retry(CloseCode::Overloaded, context);
            let reply = reply_to.reply().failed_with(503, CloseCode::Overloaded.reason());
            Reply { advice: Some(Advice::pause(retry)), ..reply }.to_json()
        }
    })
}
