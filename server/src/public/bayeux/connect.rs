use std::sync::Arc;
use std::time::Duration;

use encke_core::close::CloseCode;
use encke_core::dialect::Dialect;
use encke_core::dialect::bayeux::{Advice, Bayeux, ClientMessage, Connect, Reply};
use encke_core::session::{ConnectionKind, Delivery};

use super::handshake;
use crate::admission::{BrowserId, BrowserPoll, Browsers};
use crate::auth::Identity;
use crate::client::{Caller, Context, retry_ms};
use crate::session::{AttachRequest, Attached, Refusal, SessionCell};
use crate::transport::poll::farewell;

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

/// Why a message gets no more than a reply.
pub(super) type Refused = String;

/// The session of a message, if its client may still use it.
pub(super) fn session(message: &ClientMessage<'_>, context: &Context) -> Result<Arc<SessionCell>, Refused> {
    let found = message.client_id().ok().and_then(|token| context.sessions.find(&token));
    found.ok_or_else(|| unknown(message.reply_to().reply()))
}

fn unknown(reply: Reply<'_>) -> Refused {
    let reply = reply.failed_with(402, "the session is unknown");
    Reply { advice: Some(Advice::handshake(Duration::ZERO)), ..reply }.to_json()
}

/// Whether the client's token still holds.
pub(super) fn check_token(
    message: &ClientMessage<'_>,
    session: &SessionCell,
    context: &Context,
) -> Result<(), Refused> {
    let now = context.timeouts.clock().unix_now();
    if session.identity().expires().is_none_or(|expires| expires > now) {
        return Ok(());
    }
    Err(told(message, CloseCode::TokenExpired, context))
}

fn told(message: &ClientMessage<'_>, code: CloseCode, context: &Context) -> Refused {
    farewell(message.reply_to().reply(), code, retry_ms(code, &context.entropy)).to_json()
}

/// Gives a request its session.
pub(super) fn connect(
    message: &ClientMessage<'_>,
    session: &Arc<SessionCell>,
    circumstances: &Circumstances<'_>,
    context: &Context,
) -> Result<Connecting, Refused> {
    let reply_to = message.reply_to();
    let bad = |error: &str, advice| Reply { advice, ..reply_to.reply().failed_with(400, error) }.to_json();
    let Connect { hold, acknowledged } = message.connect().map_err(|error| bad(&error.to_string(), None))?;
    if acknowledged.is_some_and(|seq| seq > session.seq()) {
        let advice = Advice::handshake(Duration::ZERO);
        return Err(bad("ext.ack is beyond what was sent", Some(advice)));
    }
    let identity = identity(message, session, circumstances, context)?;
    let is_first = session.advise_all();
    let wanted = if is_first || !circumstances.is_alone {
        Duration::ZERO
    } else {
        let longest = context.sessions.settings().poll_hold;
        hold.map_or(longest, |hold| hold.min(longest))
    };
    let (hold, browser, advice) = match hold_for(wanted, circumstances) {
        Ok(browser) => (wanted, browser, is_first.then(|| handshake::advice(context))),
        Err(advice) => {
            session.advise_pause(true);
            (Duration::ZERO, None, Some(advice))
        }
    };
    let request = |may_open| AttachRequest {
        resume: Some(session.resume_token().expose()),
        seq: acknowledged,
        identity,
        address: circumstances.caller.address,
        kind: ConnectionKind::Poll { hold },
        dialect: Bayeux::NAME,
        delivery: if acknowledged.is_some() { Delivery::AtLeastOnce } else { Delivery::AtMostOnce },
        may_open,
        only_resume: true,
    };
    let attached = context.attach(circumstances.caller.address, request, || false);
    let attached = attached.map_err(|refusal| match refusal {
        Refusal::NotTheUser => told(message, CloseCode::Unauthorized, context),
        Refusal::Draining => told(message, CloseCode::Draining, context),
        Refusal::Gone | Refusal::Late => unknown(reply_to.reply()),
        // The session is still there.
        Refusal::TooManyConnections | Refusal::TooManySessions | Refusal::TooFast => {
            session.advise_pause(true);
            let retry = Duration::from_millis(retry_ms(CloseCode::Overloaded, &context.entropy));
            let reply = reply_to.reply().failed_with(503, CloseCode::Overloaded.reason());
            Reply { advice: Some(Advice::pause(retry)), ..reply }.to_json()
        }
    })?;
    Ok(Connecting { attached, is_due: hold.is_zero(), acknowledged, advice, browser })
}

/// Counts a request that is to be held for its browser. If that has too many, the advice says what to do instead.
fn hold_for(hold: Duration, circumstances: &Circumstances<'_>) -> Result<Option<BrowserPoll>, Advice> {
    let Some(browser) = circumstances.browser.filter(|_| !hold.is_zero()) else { return Ok(None) };
    match circumstances.browsers.hold(browser) {
        Some(poll) => Ok(Some(poll)),
        None => Err(Advice { multiple_clients: true, ..Advice::pause(MULTIPLE_CLIENTS_PAUSE) }),
    }
}

/// Who the client is: by a token that comes with the request, or as before.
fn identity(
    message: &ClientMessage<'_>,
    session: &SessionCell,
    circumstances: &Circumstances<'_>,
    context: &Context,
) -> Result<Identity, Refused> {
    let Circumstances { caller, query_token, .. } = circumstances;
    let token = message
        .token()
        .map_err(|error| message.reply_to().reply().failed_with(400, &error.to_string()).to_json())?;
    match token.as_deref().or(*query_token) {
        None if !caller.has_token() => {
            check_token(message, session, context)?;
            Ok(session.identity())
        }
        token => caller.identify(token, context).map_err(|code| told(message, code, context)),
    }
}
