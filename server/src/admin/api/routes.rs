//! Routing of requests to their handlers.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::{Method, Response};

use super::call::ApiCall;
use super::other_servers::{OtherServers, Reach};
use super::run_to_completion::run_to_completion;
use super::{
    channels, health, live, metrics, openapi, presence, publish, reminders, send, sessions, subscribe,
    timeline, timers, users,
};
use crate::admin::body::{ResponseBody, full_body};
use crate::admin::page;
use crate::auth::Scope;
use crate::http::request::check_names;
use crate::http::{ApiError, Reply};
use Handler::{Completed, Deferred, Immediate, Streaming};

/// A handler, classified by how it responds.
#[derive(Clone, Copy, Debug)]
enum Handler {
    /// Responds immediately.
    Immediate(fn(&ApiCall) -> Result<Reply, ApiError>),
    /// Responds asynchronously: waits for the engine, or yields to other tasks.
    Deferred(fn(ApiCall) -> BoxFuture<'static, Result<Reply, ApiError>>),
    /// Like `Deferred`, but runs to completion even if the client disconnects.
    Completed(fn(ApiCall) -> BoxFuture<'static, Result<Reply, ApiError>>),
    /// Responds immediately with a stream.
    Streaming(fn(&ApiCall) -> Result<Response<ResponseBody>, ApiError>),
}

/// One method of one path.
#[derive(Debug)]
pub(crate) struct Route {
    method: Method,
    /// Path, with at most one parameter.
    path: &'static str,
    pub(crate) takes_body: bool,
    /// Names of the parameters that the query may have.
    parameters: &'static [&'static str],
    /// Scope that the API key must have, if there are keys.
    pub(crate) scope: Scope,
    reach: Reach,
    handler: Handler,
}

#[rustfmt::skip]
static ROUTES: &[Route] = &[
    get("/", Immediate(|call| Ok(page::index(&call.headers, &call.context)))),
    get("/dashboard/{file}", Immediate(|call| page::file(&call.parameter, &call.headers, &call.context))),
    get("/docs", Immediate(|call| Ok(page::documents(&call.headers, &call.context)))),
    get("/docs/concepts/{page}", Immediate(|call| document("concepts", call))),
    get("/docs/guides/{page}", Immediate(|call| document("guides", call))),
    get("/docs/operations/{page}", Immediate(|call| document("operations", call))),
    get("/docs/reference/{page}", Immediate(|call| document("reference", call))),
    get("/docs/evidence/{page}", Immediate(|call| document("evidence", call))),
    get("/docs/decisions/{page}", Immediate(|call| document("decisions", call))),
    get("/healthz", Immediate(|call| Ok(health::alive(&call.context)))),
    get("/readyz", Immediate(|call| Ok(health::ready(&call.context)))),
    get("/metrics", Immediate(|call| Ok(metrics::show(&call.headers, &call.context)))),
    get("/api/openapi.json", Immediate(|_| Ok(openapi::show()))),
    get("/api/live", Streaming(live::watch)),
    get("/api/timers", Immediate(|call| Ok(timers::show(&call.context)))),
    get("/api/sessions", Immediate(sessions::list)).with_parameters(&["phase", "user", "limit", "cursor"]),
    get("/api/sessions/{id}", Immediate(sessions::show)).reaching(Reach::SessionOwner),
    get("/api/sessions/{id}/timeline", Immediate(timeline::show)).reaching(Reach::SessionOwner),
    delete(Scope::Sessions, "/api/sessions/{id}", Immediate(sessions::end)).reaching(Reach::SessionOwner),
    post(Scope::Sessions, "/api/sessions/{id}/disconnect", Immediate(sessions::disconnect)).reaching(Reach::SessionOwner),
    post(Scope::Publish, "/api/sessions/{id}/send", Immediate(send::to_session)).with_body().reaching(Reach::SessionOwner),
    post(Scope::Sessions, "/api/sessions/{id}/subscribe", Completed(|call| subscribe::subscribe(call).boxed())).with_body().reaching(Reach::SessionOwner),
    post(Scope::Sessions, "/api/sessions/{id}/unsubscribe", Immediate(subscribe::unsubscribe)).with_body().reaching(Reach::SessionOwner),
    get("/api/users", Deferred(|call| users::list(call).boxed())).with_parameters(&["limit", "cursor"]),
    delete(Scope::Sessions, "/api/users/{user}", Completed(|call| users::revoke(call).boxed())).reaching(Reach::All),
    post(Scope::Sessions, "/api/users/{user}/disconnect", Completed(|call| users::disconnect(call).boxed())).reaching(Reach::All),
    post(Scope::Publish, "/api/users/{user}/send", Completed(|call| send::to_user(call).boxed())).with_body().reaching(Reach::All),
    post(Scope::Publish, "/api/publish", Deferred(|call| publish::publish(call).boxed())).with_body(),
    post(Scope::Publish, "/api/broadcast", Completed(|call| publish::broadcast(call).boxed())).with_body(),
    get("/api/channels", Deferred(|call| channels::list(call).boxed())).with_parameters(&["sort", "limit", "cursor"]),
    get("/api/channels/{name}", Immediate(channels::show)),
    get("/api/channels/{name}/history", Deferred(|call| channels::history(call).boxed())).with_parameters(&["since", "before", "limit"]),
    get("/api/channels/{name}/presence", Deferred(|call| presence::show(call).boxed())).with_parameters(&["limit", "cursor"]),
    get("/api/reminders", Immediate(reminders::list)).with_parameters(&["limit", "cursor"]),
    get("/api/reminders/{key}", Immediate(reminders::show)),
    Route::new(Scope::Publish, Method::PUT, "/api/reminders/{key}", Immediate(reminders::put)).with_body(),
    delete(Scope::Publish, "/api/reminders/{key}", Immediate(reminders::delete)),
];

fn document(part: &str, call: &ApiCall) -> Result<Reply, ApiError> {
    page::document(&format!("{part}/{}", call.parameter), &call.headers, &call.context)
}

const fn get(path: &'static str, handler: Handler) -> Route {
    Route::new(Scope::Read, Method::GET, path, handler)
}

const fn post(scope: Scope, path: &'static str, handler: Handler) -> Route {
    Route::new(scope, Method::POST, path, handler)
}

const fn delete(scope: Scope, path: &'static str, handler: Handler) -> Route {
    Route::new(scope, Method::DELETE, path, handler)
}

impl Route {
    const fn new(scope: Scope, method: Method, path: &'static str, handler: Handler) -> Self {
        Self { method, path, takes_body: false, parameters: &[], scope, reach: Reach::Here, handler }
    }

    const fn with_parameters(mut self, names: &'static [&'static str]) -> Self {
        self.parameters = names;
        self
    }

    const fn with_body(mut self) -> Self {
        self.takes_body = true;
        self
    }

    const fn reaching(mut self, reach: Reach) -> Self {
        self.reach = reach;
        self
    }

    pub(super) fn reach(&self) -> Reach {
        self.reach
    }

    pub(super) fn method(&self) -> &Method {
        &self.method
    }

    /// Returns the path with this value of its parameter.
    pub(super) fn path_with(&self, parameter: &str) -> String {
        match (self.path.find('{'), self.path.find('}')) {
            (Some(from), Some(to)) => format!("{}{parameter}{}", &self.path[..from], &self.path[to + 1..]),
            _ => self.path.to_owned(),
        }
    }

    /// Returns the path to be recorded in traces, or `None` if requests to this route are not traced.
    pub(crate) fn traced_path(&self) -> Option<&'static str> {
        matches!(self.path, "/api/publish" | "/api/broadcast").then_some(self.path)
    }

    /// Checks the names in the query, unless this is a page or a probe, which ignores its query.
    fn check_parameters(&self, query: &str) -> Result<(), ApiError> {
        if !self.path.starts_with("/api/") {
            return Ok(());
        }
        check_names(form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name), self.parameters)
    }

    /// Calls the handler, and forwards the request to the other servers that it concerns.
    pub(crate) async fn answer(&self, call: ApiCall) -> Result<Response<ResponseBody>, ApiError> {
        self.check_parameters(&call.query)?;
        if let Streaming(answer) = self.handler {
            return answer(&call);
        }
        let others = OtherServers::of(self, &call);
        let own = self.answer_here(call).await;
        let reply = match others {
            Some(others) => others.combine(own).await,
            None => own,
        };
        reply.map(full_body)
    }

    /// Calls the handler for the sessions of this server.
    pub(super) async fn answer_here(&self, call: ApiCall) -> Result<Reply, ApiError> {
        match self.handler {
            Immediate(answer) => answer(&call),
            Deferred(answer) => answer(call).await,
            Completed(answer) => run_to_completion(answer(call)).await,
            Streaming(_) => Err(ApiError::not_found("a stream cannot be forwarded")),
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
        // The path may contain a parameter with an unencoded slash.
        let has_parameter = |route: &Route| {
            let prefix = route.path.split_once('{').map(|(prefix, _)| prefix);
            prefix.is_some_and(|prefix| prefix.starts_with("/api/") && path.starts_with(prefix))
        };
        let hint = if ROUTES.iter().any(has_parameter) {
            "; a slash within a name or key must be percent-encoded, as %2F"
        } else {
            ""
        };
        return Err(ApiError::not_found(format!("no such path: {path}{hint}")));
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

    #[test]
    fn an_unknown_path_with_a_parameter_is_refused_with_a_hint() {
        let message_of = |path: &str| {
            let segments: Vec<_> = path[1..].split('/').collect();
            let error = find(&Method::PUT, &segments, path).expect_err("no route");
            error.to_string()
        };
        for path in ["/api/reminders/a/b", "/api/channels//a/b/history"] {
            let hint = "a slash within a name or key must be percent-encoded, as %2F";
            assert_eq!(message_of(path), format!("no such path: {path}; {hint}"));
        }
        for path in ["/api/reminder/a", "/dashboard/a/b", "/"] {
            assert!(!message_of(path).contains("%2F"), "{path}");
        }
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
