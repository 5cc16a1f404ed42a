//! Routing of requests to their handlers.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::{HeaderMap, Method, Response};

use super::{
    channels, health, live, metrics, openapi, presence, publish, reminders, send, sessions, subscribe,
    timeline, timers, users,
};
use crate::admin::body::{ResponseBody, full_body};
use crate::admin::{Context, page};
use crate::auth::{Operator, Scope};
use crate::http::{ApiError, Reply};
use crate::trace::RequestTrace;

/// A request, as passed to a handler.
pub(crate) struct ApiCall<'a> {
    pub(crate) context: &'a Arc<Context>,
    pub(crate) operator: &'a Operator,
    pub(crate) headers: &'a HeaderMap,
    /// Path segment that matches `{id}`, `{name}`, `{user}`, `{key}` or `{file}`, as the client sent it.
    pub(crate) parameter: &'a str,
    pub(crate) query: &'a str,
    /// Body of the request. Empty, unless the route [takes a body](Route::takes_body).
    pub(crate) body: &'a Bytes,
    pub(crate) trace: RequestTrace,
}

type HandlerResult = Result<Reply, ApiError>;

/// A handler, classified by how it responds.
#[derive(Clone, Copy, Debug)]
enum Handler {
    /// Responds immediately.
    Immediate(fn(&ApiCall<'_>) -> HandlerResult),
    /// Responds asynchronously: waits for the engine, or yields to other tasks.
    Deferred(fn(&ApiCall<'_>) -> BoxFuture<'static, HandlerResult>),
    /// Responds immediately with a stream.
    Streaming(fn(&ApiCall<'_>) -> Result<Response<ResponseBody>, ApiError>),
}

/// One method of one path.
#[derive(Debug)]
pub(crate) struct Route {
    method: Method,
    /// Path, with at most one parameter.
    path: &'static str,
    pub(crate) takes_body: bool,
    /// Scope that the API key must have, if there are keys.
    pub(crate) scope: Scope,
    handler: Handler,
}

#[rustfmt::skip]
static ROUTES: &[Route] = &[
    Route::get("/", |call| Ok(page::index(call.headers, call.context))),
    Route::get("/dashboard/{file}", |call| page::file(call.parameter, call.headers, call.context)),
    Route::get("/docs", |call| Ok(page::docs(call.headers, call.context))),
    Route::get("/healthz", |call| Ok(health::alive(call.context))),
    Route::get("/readyz", |call| Ok(health::ready(call.context))),
    Route::get("/metrics", |call| Ok(metrics::show(call.context))),
    Route::get("/api/openapi.json", |_| Ok(openapi::show())),
    Route::streaming("/api/live", live::watch),
    Route::get("/api/timers", |call| Ok(timers::show(call.context))),
    Route::get("/api/sessions", sessions::list),
    Route::get("/api/sessions/{id}", sessions::show),
    Route::get("/api/sessions/{id}/timeline", timeline::show),
    Route::new(Scope::Sessions, Method::DELETE, "/api/sessions/{id}", sessions::end),
    Route::new(Scope::Sessions, Method::POST, "/api/sessions/{id}/disconnect", sessions::disconnect),
    Route::post(Scope::Publish, "/api/sessions/{id}/send", send::to_session),
    Route::post(Scope::Sessions, "/api/sessions/{id}/subscribe", subscribe::subscribe),
    Route::post(Scope::Sessions, "/api/sessions/{id}/unsubscribe", subscribe::unsubscribe),
    Route::deferred(Scope::Sessions, Method::DELETE, "/api/users/{user}", users::revoke),
    Route::deferred(Scope::Sessions, Method::POST, "/api/users/{user}/disconnect", users::disconnect),
    Route::post(Scope::Publish, "/api/users/{user}/send", send::to_user),
    Route::post(Scope::Publish, "/api/publish", publish::publish),
    Route::post(Scope::Publish, "/api/broadcast", publish::broadcast),
    Route::get_deferred("/api/channels", channels::list),
    Route::get("/api/channels/{name}", channels::show),
    Route::get_deferred("/api/channels/{name}/history", channels::history),
    Route::get_deferred("/api/channels/{name}/presence", presence::show),
    Route::get("/api/reminders/{key}", reminders::show),
    Route::with_body(Scope::Publish, Method::PUT, "/api/reminders/{key}", reminders::put),
    Route::new(Scope::Publish, Method::DELETE, "/api/reminders/{key}", reminders::delete),
];

impl Route {
    const fn new(
        scope: Scope,
        method: Method,
        path: &'static str,
        answer: fn(&ApiCall<'_>) -> HandlerResult,
    ) -> Self {
        Self { method, path, takes_body: false, scope, handler: Handler::Immediate(answer) }
    }

    const fn get(path: &'static str, answer: fn(&ApiCall<'_>) -> HandlerResult) -> Self {
        Self::new(Scope::Read, Method::GET, path, answer)
    }

    const fn streaming(
        path: &'static str,
        answer: fn(&ApiCall<'_>) -> Result<Response<ResponseBody>, ApiError>,
    ) -> Self {
        Self {
            method: Method::GET,
            path,
            takes_body: false,
            scope: Scope::Read,
            handler: Handler::Streaming(answer),
        }
    }

    const fn deferred(
        scope: Scope,
        method: Method,
        path: &'static str,
        answer: fn(&ApiCall<'_>) -> BoxFuture<'static, HandlerResult>,
    ) -> Self {
        Self { method, path, takes_body: false, scope, handler: Handler::Deferred(answer) }
    }

    const fn get_deferred(
        path: &'static str,
        answer: fn(&ApiCall<'_>) -> BoxFuture<'static, HandlerResult>,
    ) -> Self {
        Self::deferred(Scope::Read, Method::GET, path, answer)
    }

    const fn with_body(
        scope: Scope,
        method: Method,
        path: &'static str,
        answer: fn(&ApiCall<'_>) -> BoxFuture<'static, HandlerResult>,
    ) -> Self {
        Self { method, path, takes_body: true, scope, handler: Handler::Deferred(answer) }
    }

    const fn post(
        scope: Scope,
        path: &'static str,
        answer: fn(&ApiCall<'_>) -> BoxFuture<'static, HandlerResult>,
    ) -> Self {
        Self::with_body(scope, Method::POST, path, answer)
    }

    /// Returns the path to be recorded in traces, or `None` if requests to this route are not traced.
    pub(crate) fn traced_path(&self) -> Option<&'static str> {
        matches!(self.path, "/api/publish" | "/api/broadcast").then_some(self.path)
    }

    /// Calls the handler.
    pub(crate) async fn answer(&self, call: &ApiCall<'_>) -> Result<Response<ResponseBody>, ApiError> {
        match self.handler {
            Handler::Immediate(answer) => answer(call).map(full_body),
            Handler::Deferred(answer) => answer(call).await.map(full_body),
            Handler::Streaming(answer) => answer(call),
        }
    }

    /// Returns the value of the path's parameter if the path matches this route. The value is empty if the
    /// route has no parameter.
    fn parameter<'a>(&self, segments: &[&'a str]) -> Option<&'a str> {
        let mut parameter = "";
        let mut pattern = self.path[1..].split('/');
        for segment in segments {
            match pattern.next()? {
                any if any.starts_with('{') => parameter = segment,
                part if part == *segment => {}
                _ => return None,
            }
        }
        pattern.next().is_none().then_some(parameter)
    }
}

/// Finds the route for a method and path segments. Returns the route and the value of its parameter. `path`
/// is only used in error messages.
///
/// HEAD is handled like GET, and hyper omits the body. Every server must support both methods (RFC 9110,
/// section 9.1).
pub(crate) fn find<'a>(
    method: &Method,
    segments: &[&'a str],
    path: &str,
) -> Result<(&'static Route, &'a str), ApiError> {
    let wanted = if method == Method::HEAD { &Method::GET } else { method };
    let mut allowed = Vec::new();
    for route in ROUTES {
        if let Some(parameter) = route.parameter(segments) {
            if route.method == *wanted {
                return Ok((route, parameter));
            }
            allowed.push(route.method.as_str());
            if route.method == Method::GET {
                allowed.push(Method::HEAD.as_str());
            }
        }
    }
    if allowed.is_empty() {
        return Err(ApiError::not_found(format!("no such path: {path}")));
    }
    Err(ApiError::method_not_allowed(&allowed.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn found(method: Method, path: &str) -> Option<(&'static str, &str)> {
        let segments: Vec<_> = path[1..].split('/').collect();
        find(&method, &segments, path).ok().map(|(route, parameter)| (route.path, parameter))
    }

    #[test]
    fn a_path_is_found_by_its_parts() {
        assert_eq!(found(Method::GET, "/healthz"), Some(("/healthz", "")));
        assert_eq!(found(Method::GET, "/api/channels/a%2Fb"), Some(("/api/channels/{name}", "a%2Fb")));
        assert_eq!(found(Method::GET, "/api/channels/"), Some(("/api/channels/{name}", "")));
        let history = Some(("/api/channels/{name}/history", "history"));
        assert_eq!(found(Method::GET, "/api/channels/history/history"), history);
        assert_eq!(found(Method::GET, "/"), Some(("/", "")));
        for path in [
            "//",
            "/dashboard",
            "/dashboard/a/b",
            "/api",
            "/api/",
            "/healthz/",
            "/api/channels/a/",
            "/api/channels/a/history/b",
        ] {
            assert_eq!(found(Method::GET, path), None, "{path}");
        }
        assert_eq!(found(Method::HEAD, "/healthz"), Some(("/healthz", "")));
        assert_eq!(found(Method::POST, "/healthz"), None);
    }

    /// No two routes may match the same request.
    #[test]
    fn routes_are_distinct() {
        let shapes = ROUTES.iter().map(|route| {
            let parts = route.path.split('/').map(|part| if part.starts_with('{') { "{}" } else { part });
            (route.method.as_str(), parts.collect::<Vec<_>>())
        });
        assert_eq!(shapes.collect::<BTreeSet<_>>().len(), ROUTES.len());
    }

    #[test]
    fn the_document_and_the_routes_agree() {
        let document: serde_json::Value = serde_json::from_str(openapi::DOCUMENT).expect("JSON");
        let paths = document["paths"].as_object().expect("paths");
        let documented = paths.iter().flat_map(|(path, item)| {
            let methods = item.as_object().expect("an object").keys().filter(|key| *key != "parameters");
            methods.map(move |method| (path.clone(), method.to_uppercase()))
        });
        let for_programs = ["/healthz", "/readyz", "/metrics"];
        let routes = ROUTES
            .iter()
            .filter(|route| route.path.starts_with("/api/") || for_programs.contains(&route.path));
        let routes = routes.map(|route| (route.path.to_owned(), route.method.to_string()));
        assert_eq!(documented.collect::<BTreeSet<_>>(), routes.collect());
    }
}
