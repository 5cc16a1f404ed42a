use encke_core::dialect::bayeux::{ClientMessage, MessageKind, ReplyTo, Unreadable, messages};
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, HeaderMap, HeaderValue, ORIGIN, SET_COOKIE, X_CONTENT_TYPE_OPTIONS};
use hyper::{Method, Request, Version};

use super::command::{Replies, command};
use super::connect::{Circumstances, Connecting, connect};
use super::handshake::{connection_types, handshake, shakes_hands};
use super::session::{Refused, session};
use super::{browser, callback};
#[cfg(feature = "simulation")]
use crate::client;
use crate::client::Caller;
use crate::http::body::{self, BodyLimits};
use crate::http::reply::with;
use crate::http::{ApiError, ApiErrorCode, Reply};
use crate::public::admit::check_origin;
use crate::public::poll::keeps_alive;
use crate::public::receive::read;
use crate::public::{Context, cors};
use crate::session::{SessionCell, Transport};
use crate::transport::poll::{Accepted, ConnectForm, array};

/// A request that may have messages.
pub(crate) struct Asked {
    caller: Caller,
    headers: HeaderMap,
    version: Version,
    query: Query,
    body: Option<Incoming>,
}

#[derive(Default)]
struct Query {
    token: Option<String>,
    /// Of callback-polling.
    callback: Option<Box<str>>,
    messages: Option<String>,
}

/// Looks at all of a request but its body, which may not be worth reading.
pub(in crate::public) fn ask(
    request: Request<Incoming>,
    caller: Caller,
    context: &Context,
) -> Result<Asked, Box<Reply>> {
    let finish = |reply: Reply| Box::new(finish(reply, &caller, request.headers()));
    let refuse = |error: ApiError| finish(error.into());
    check_origin(&caller, &context.client).map_err(refuse)?;
    let query = read_query(request.uri().query().unwrap_or_default(), context).map_err(refuse)?;
    let has_body = match *request.method() {
        Method::POST => true,
        Method::GET if query.callback.is_some() => false,
        Method::OPTIONS => {
            let allowed = "authorization, content-type, pragma, x-requested-with";
            return Err(finish(cors::preflight(&caller, request.headers(), "GET, POST", allowed)));
        }
        _ => return Err(refuse(ApiError::method_not_allowed("POST, OPTIONS"))),
    };
    let (head, body) = request.into_parts();
    let body = has_body.then_some(body);
    Ok(Asked { caller, headers: head.headers, version: head.version, query, body })
}

/// A request whose body was read already.
#[cfg(feature = "simulation")]
pub(crate) fn asked_in(
    request: Request<String>,
    address: std::net::IpAddr,
    context: &client::Context,
) -> Asked {
    let caller = Caller::of(&request, address, &context.auth);
    let (head, body) = request.into_parts();
    let query = Query { messages: Some(body), ..Query::default() };
    Asked { caller, headers: head.headers, version: head.version, query, body: None }
}

/// Scripts that call a function of their page send no Origin: where they are not wanted, `jsonp` means nothing.
fn read_query(text: &str, context: &Context) -> Result<Query, ApiError> {
    let mut query = Query::default();
    for (name, value) in form_urlencoded::parse(text.as_bytes()) {
        match &*name {
            "token" => query.token = Some(value.into_owned()),
            "jsonp" if context.bayeux.callback_polling => {
                let checked = callback::checked(&value);
                query.callback =
                    Some(checked.ok_or_else(|| ApiError::bad_request("jsonp must name a function"))?);
            }
            "message" => query.messages = Some(value.into_owned()),
            _ => {}
        }
    }
    Ok(query)
}

impl Asked {
    /// Carries out what the messages ask for. Returns a poll that is to be held, or else the reply. `has_session` hears that the client
    /// has shown that it has one, `has_ended` is asked whether the client is gone.
    pub(crate) async fn answer(
        mut self,
        context: &Context,
        has_session: impl Fn() + Send,
        has_ended: impl Fn() -> bool + Send,
    ) -> Result<Accepted<Box<ConnectForm>>, Box<Reply>> {
        let answered = match self.body(context).await {
            Ok(body) => self.messages(&body, context, has_session, has_ended).await,
            Err(error) => Err(error.into()),
        };
        answered.map_err(|reply| Box::new(finish(reply, &self.caller, &self.headers)))
    }

    async fn body(&mut self, context: &Context) -> Result<String, ApiError> {
        let Some(body) = self.body.take() else {
            return Ok(self.query.messages.take().unwrap_or_default());
        };
        let media_type = body::media_type(&self.headers).to_ascii_lowercase();
        let is_form = match &*media_type {
            "application/json" | "text/plain" => false,
            "application/x-www-form-urlencoded" => true,
            _ => {
                return Err(ApiError::new(
                    ApiErrorCode::UnsupportedMediaType,
                    "send `Content-Type: application/json`, text/plain, or a form with `message`",
                ));
            }
        };
        let limits =
            BodyLimits { max_bytes: context.client.settings.max_message, timeout: context.handshake_timeout };
        let body = read(body, limits, self.caller.address, &context.client).await?;
        // Faye's client sends forms to other origins, and does not say so.
        let is_form = is_form || (media_type == "text/plain" && body.starts_with(b"message="));
        if is_form { Ok(form_message(&body)) } else { text(&body) }
    }

    async fn messages(
        &self,
        body: &str,
        context: &Context,
        has_session: impl Fn(),
        has_ended: impl Fn() -> bool,
    ) -> Result<Accepted<Box<ConnectForm>>, Reply> {
        let texts = messages(body).map_err(|error| Reply::from(unreadable(&error)))?;
        let mut replies = Replies::default();
        let parsed: Vec<_> = texts.iter().map(|text| ClientMessage::parse(text)).collect();
        // What shares the request of a handshake is of a session that its client gives up.
        if let Some(message) =
            parsed.iter().flatten().find(|message| message.kind() == MessageKind::Handshake)
        {
            return Err(self.handshake(message, context, has_session).await);
        }
        let is_alone = parsed.len() == 1;
        // Looked for first: what shares the request may end it.
        let is_connect = |message: &&ClientMessage<'_>| message.kind() == MessageKind::Connect;
        let connected = parsed.iter().flatten().find(is_connect).map(|it| session(it, &context.client));
        let mut connects = None;
        for message in parsed {
            match message {
                Ok(message) if message.kind() == MessageKind::Connect && connects.is_none() => {
                    connects = Some(message);
                }
                Ok(message) => {
                    if command(message, self.caller.address, &context.client, &mut replies).await {
                        has_session();
                    }
                }
                Err(error) => replies.push(&error.reply()),
            }
        }
        let Some((message, session)) = connects.zip(connected) else {
            return Err(self.reply(&[replies.0.as_bytes()]));
        };
        match session.and_then(|session| self.connect(&message, &session, is_alone, has_ended, context)) {
            Ok((connecting, connect)) => {
                has_session();
                Ok(self.accept(connecting, connect, replies))
            }
            Err(refused) => Err(self.reply(&[replies.0.as_bytes(), refused.as_bytes()])),
        }
    }

    async fn handshake(
        &self,
        message: &ClientMessage<'_>,
        context: &Context,
        has_session: impl Fn(),
    ) -> Reply {
        let types = connection_types(context.bayeux.callback_polling);
        let token = self.query.token.as_deref();
        let who = (&self.caller, &self.headers);
        let caller = shakes_hands(message, token, who, Transport::Poll, &context.client).await;
        let (text, is_open) = handshake(message, token, types, &caller, &context.client);
        let mut reply = self.reply(&[text.as_bytes()]);
        if is_open {
            has_session();
            if context.bayeux.browsers.is_limited() && browser::id(&self.headers).is_none() {
                let cookie =
                    browser::set_cookie(&self.headers, &context.client.entropy, context.tls.is_some());
                reply.headers_mut().insert(SET_COOKIE, cookie);
            }
        }
        reply
    }

    fn connect(
        &self,
        message: &ClientMessage<'_>,
        session: &SessionCell,
        is_alone: bool,
        has_ended: impl Fn() -> bool,
        context: &Context,
    ) -> Result<(Connecting, ReplyTo), Refused> {
        let browsers = &context.bayeux.browsers;
        let circumstances = Circumstances {
            caller: &self.caller,
            query_token: self.query.token.as_deref(),
            is_alone,
            browser: browser::id(&self.headers).filter(|_| browsers.is_limited()),
            browsers,
        };
        let connecting = connect(message, session, &circumstances, has_ended, &context.client)?;
        Ok((connecting, message.reply_to()))
    }

    fn accept(
        &self,
        connecting: Connecting,
        connect: ReplyTo,
        replies: Replies,
    ) -> Accepted<Box<ConnectForm>> {
        let Connecting { attached, is_due, acknowledged, advice, browser } = connecting;
        let form = Box::new(ConnectForm {
            connect,
            replies: replies.0,
            acknowledged,
            advice,
            callback: self.query.callback.clone(),
            browser,
            taken: Default::default(),
            pause: Default::default(),
        });
        let mut headers = HeaderMap::new();
        cors::allow_origin_with_cookies(&mut headers, self.headers.get(ORIGIN));
        let keep_alive = keeps_alive(self.version, &self.headers);
        Accepted {
            attached,
            form,
            is_due,
            channels: Vec::new(),
            last: 0,
            headers: cors::lines(&headers),
            keep_alive,
        }
    }

    fn reply(&self, parts: &[&[u8]]) -> Reply {
        let content = array(parts, self.query.callback.as_deref());
        let mut reply = with(content.status, content.media_type, content.body);
        if self.query.callback.is_some() {
            reply.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        }
        reply
    }
}

/// No cache may keep an answer, and the pages that may ask may read it.
fn finish(mut reply: Reply, caller: &Caller, headers: &HeaderMap) -> Reply {
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if caller.origin_allowed {
        cors::allow_origin_with_cookies(reply.headers_mut(), headers.get(ORIGIN));
    }
    reply
}

fn unreadable(error: &Unreadable) -> ApiError {
    match error {
        Unreadable::NotJson(_) => ApiError::bad_request(error.to_string()),
        Unreadable::TooMany(_) => ApiError::new(ApiErrorCode::TooLarge, error.to_string()),
    }
}

fn text(body: &[u8]) -> Result<String, ApiError> {
    let text = std::str::from_utf8(body).map_err(|_| ApiError::bad_request("the body is not UTF-8"))?;
    Ok(text.to_owned())
}

/// The messages of a form, in as many fields as there are. Without one, it has no messages.
fn form_message(body: &[u8]) -> String {
    let fields = form_urlencoded::parse(body).filter(|(name, _)| name == "message");
    let mut fields: Vec<_> = fields.map(|(_, messages)| messages.into_owned()).collect();
    if fields.len() <= 1 {
        return fields.pop().unwrap_or_default();
    }
    let members = |field: &String| {
        let field = field.trim();
        let array = field.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        array.unwrap_or(field).trim().to_owned()
    };
    let members: Vec<_> = fields.iter().map(members).filter(|members| !members.is_empty()).collect();
    format!("[{}]", members.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_has_messages_in_any_number_of_fields() {
        for (form, messages) in [
            ("", ""),
            ("x=1", ""),
            ("message=%5B%7B%7D%5D&x=1", "[{}]"),
            ("message=%7B%7D", "{}"),
            ("message=%7B%7D&message=+%5B1%2C+2%5D&message=%5B%5D", "[{},1, 2]"),
        ] {
            assert_eq!(form_message(form.as_bytes()), messages, "{form}");
        }
    }
}
