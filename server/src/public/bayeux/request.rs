use encke_core::dialect::bayeux::{BadBody, ClientMessage, MessageKind, split_messages};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderValue, ORIGIN, SET_COOKIE, X_CONTENT_TYPE_OPTIONS};
use hyper::{Method, Request, Version};

use super::command::commands;
use super::connect::connect;
use super::handshake::handshake;
use super::session::{FoundSession, Requester, session, unavailable};
use super::{browser, callback};
#[cfg(feature = "simulation")]
use crate::client;
use crate::client::Caller;
use crate::connection::transport::poll::{Accepted, ResponseWriter, array_response};
use crate::http::body::{self, BodyLimits};
use crate::http::reply::with;
use crate::http::request::{is_utf8, parameters};
use crate::http::{ApiError, ApiErrorCode, Reply, keeps_alive};
use crate::public::context::Context;
use crate::public::cors::{self, Cookies};
use crate::public::receive::read;

/// A request that may contain messages.
pub(crate) struct BayeuxRequest {
    requester: Requester,
    version: Version,
    /// Function to call, for callback-polling.
    callback: Option<Box<str>>,
    /// Messages in the query.
    messages: String,
    body: Option<Incoming>,
}

/// Checks the head of a request, so that the body of a rejected request is not read.
pub(in crate::public) fn read_head(
    request: Request<Incoming>,
    caller: Caller,
    context: &Context,
) -> Result<BayeuxRequest, Box<Reply>> {
    let finish = |reply: Reply| Box::new(finish(reply, &caller, request.headers()));
    let refuse = |error: ApiError| finish(error.into());
    context.client.check_origin(&caller).map_err(refuse)?;
    let (mut query_token, mut callback, mut messages) = (None, None, String::new());
    for (name, value) in parameters(request.uri()) {
        match &*name {
            "token" => query_token = Some(value.into_owned()),
            // Scripts that call a function of their page send no `Origin`, so `jsonp` is ignored unless
            // callback-polling is enabled.
            "jsonp" if context.bayeux.callback_polling => {
                let checked = callback::validate(&value);
                let error = || refuse(ApiError::bad_request("jsonp must name a function"));
                callback = Some(checked.ok_or_else(error)?);
            }
            "message" => messages = value.into_owned(),
            _ => {}
        }
    }
    let has_body = match *request.method() {
        Method::POST => true,
        Method::GET if callback.is_some() => false,
        Method::OPTIONS => {
            let allowed = "authorization, content-type, pragma, x-requested-with";
            return Err(finish(cors::preflight(&caller, request.headers(), "GET, POST", allowed)));
        }
        _ => return Err(refuse(ApiError::method_not_allowed("POST, OPTIONS"))),
    };
    let (head, body) = request.into_parts();
    let body = has_body.then_some(body);
    let requester = Requester { caller, query_token, headers: head.headers };
    Ok(BayeuxRequest { requester, version: head.version, callback, messages, body })
}

/// Creates a request whose body was already read.
#[cfg(feature = "simulation")]
pub(crate) fn request_with_body(
    request: Request<String>,
    address: std::net::IpAddr,
    arrival: crate::session::Arrival,
    context: &client::Services,
) -> BayeuxRequest {
    let caller = Caller::from_request(&request, address, &context.access.auth).with_arrival(arrival);
    let (head, messages) = request.into_parts();
    let requester = Requester { caller, query_token: None, headers: head.headers };
    BayeuxRequest { requester, version: head.version, callback: None, messages, body: None }
}

impl BayeuxRequest {
    /// Handles the messages. Returns a poll to be held, or else the response. `has_session` is called once
    /// the client has shown that it has a session. `has_ended` returns whether the client has disconnected.
    pub(crate) async fn answer(
        mut self,
        context: &Context,
        has_session: impl Fn() + Send,
        has_ended: impl Fn() -> bool + Send,
    ) -> Result<Accepted, Box<Reply>> {
        let answered = match self.body(context).await {
            Ok(body) => self.messages(&body, context, has_session, has_ended).await,
            Err(error) => Err(error.into()),
        };
        answered.map_err(|reply| Box::new(finish(reply, &self.requester.caller, &self.requester.headers)))
    }

    async fn body(&mut self, context: &Context) -> Result<String, ApiError> {
        let Some(body) = self.body.take() else {
            return Ok(std::mem::take(&mut self.messages));
        };
        let media_type = body::media_type(&self.requester.headers).to_ascii_lowercase();
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
        body::check_encoding(&self.requester.headers)?;
        let limits =
            BodyLimits { max_bytes: context.client.settings.max_message, timeout: context.handshake_timeout };
        let body = read(body, limits, self.requester.caller.address, &context.client).await?;
        // Faye's client sends forms to other origins without declaring them as such.
        let is_form = is_form || (media_type == "text/plain" && body.starts_with(b"message="));
        if !is_form {
            return text(&body);
        }
        if is_utf8(&body) { Ok(form_message(&body)) } else { Err(not_utf8()) }
    }

    async fn messages(
        &self,
        body: &str,
        context: &Context,
        has_session: impl Fn(),
        has_ended: impl Fn() -> bool,
    ) -> Result<Accepted, Reply> {
        let texts = split_messages(body).map_err(|error| Reply::from(unreadable(&error)))?;
        let parsed: Vec<_> = texts.iter().map(|text| ClientMessage::parse(text)).collect();
        // Ignore the other messages of a request with a handshake: they belong to a session that the client
        // gives up.
        if let Some(message) =
            parsed.iter().flatten().find(|message| message.kind() == MessageKind::Handshake)
        {
            return Err(self.handshake(message, context, has_session).await);
        }
        let is_alone = parsed.len() == 1;
        // Look up the session first, because other messages of the request may end it.
        let is_connect = |message: &&ClientMessage<'_>| message.kind() == MessageKind::Connect;
        let address = self.requester.caller.address;
        let connected = match parsed.iter().flatten().find(is_connect) {
            Some(message) => Some(session(message, address, &context.client).await),
            None => None,
        };
        let (replies, connects) = commands(parsed, &self.requester, &context.client, &has_session).await;
        let Some((message, session)) = connects.zip(connected) else {
            return Err(self.reply(&[replies.0.as_bytes()]));
        };
        let requester = &self.requester;
        let connected = match session {
            Ok(FoundSession { session, .. }) => {
                match connect(&message, &session, requester, is_alone, has_ended, context) {
                    Ok(connected) => {
                        let confirmed = context.client.confirm_session(&connected.0, address).await;
                        confirmed
                            .map(|()| connected)
                            .map_err(|refusal| unavailable(&message, refusal.close_code(), &context.client))
                    }
                    Err(refused) => Err(refused),
                }
            }
            Err(refused) => Err(refused),
        };
        match connected {
            Ok((attached, mut writer, is_due)) => {
                has_session();
                (writer.replies, writer.callback) = (replies.0, self.callback.clone());
                Ok(Accepted {
                    attached,
                    writer: ResponseWriter::Bayeux(writer),
                    is_due,
                    channels: Vec::new(),
                    headers: cors::lines(requester.headers.get(ORIGIN), Cookies::Allowed),
                    keep_alive: keeps_alive(self.version, &requester.headers),
                })
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
        let headers = &self.requester.headers;
        match handshake(message, &self.requester, context).await {
            Err(refused) => self.reply(&[refused.as_bytes()]),
            Ok(greeting) => {
                has_session();
                let mut reply = self.reply(&[greeting.as_bytes()]);
                if context.bayeux.browsers.is_limited() && browser::id(headers).is_none() {
                    let cookie = browser::set_cookie(headers, &context.client.entropy, context.tls.is_some());
                    reply.headers_mut().insert(SET_COOKIE, cookie);
                }
                reply
            }
        }
    }

    fn reply(&self, parts: &[&[u8]]) -> Reply {
        let content = array_response(parts, self.callback.as_deref());
        let mut reply = with(content.status, content.media_type, content.body);
        if self.callback.is_some() {
            reply.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        }
        reply
    }
}

fn finish(reply: Reply, caller: &Caller, headers: &HeaderMap) -> Reply {
    cors::allow(reply, caller, headers, Cookies::Allowed)
}

fn unreadable(error: &BadBody) -> ApiError {
    match error {
        BadBody::NotJson(_) => ApiError::bad_request(error.to_string()),
        BadBody::TooMany(_) => ApiError::new(ApiErrorCode::TooLarge, error.to_string()),
    }
}

fn text(body: &[u8]) -> Result<String, ApiError> {
    let text = std::str::from_utf8(body).map_err(|_| not_utf8())?;
    Ok(text.to_owned())
}

fn not_utf8() -> ApiError {
    ApiError::bad_request("the body is not UTF-8")
}

/// Joins the messages of a form, which may be spread over several fields. A form without any such field has
/// no messages.
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
    fn form_messages_may_span_fields() {
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
