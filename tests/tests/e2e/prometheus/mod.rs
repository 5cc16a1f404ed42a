//! The metrics, as Prometheus reads them, and what stands about them elsewhere: alarms, panels, the reference.

// deploy/alerts.yml and deploy/grafana.json.
mod alarms_and_panels;
// What `encke reference` says.
mod reference;

use std::path::{Path, PathBuf};

use encke_tests::redis::Redis;
use encke_tests::tokens::{IssuerKey, key_set};
use encke_tests::waiting::until;
use encke_tests::{Backend, Launch, BackendReply, RunningServer};
use serde_json::json;

/// A server that uses everything, with something in all of it.
struct Everything {
    server: RunningServer,
    _redis: Redis,
    _backend: Backend,
    _issuer: Backend,
}

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(file)
}

impl Everything {
    fn start() -> Self {
        let (redis, backend, issuer) = (Redis::start(), Backend::start(), Backend::start());
        let key = IssuerKey::generate("a");
        let set = key_set([&key]);
        issuer.reply_with(move |_| BackendReply::json(&set));
        backend.reply_with(|_| BackendReply::json("{}"));
        let asked = |what: &str| format!("backend.{what}={}", backend.url("/"));
        let events = r#""session.opened","channel.occupied""#;
        let webhook = format!(
            "webhook=[{{url=\"{}\",events=[{events}],secret=\"{}\",name=\"NAME\"}}]",
            backend.url("/told"),
            crate::webhooks::SECRET
        );
        let server = Launch::with(&[
            "engine.kind=redis",
            &format!("engine.url={}", redis.url()),
            &format!("auth.jwks={}", issuer.url("/keys")),
            &asked("subscribe"),
            &asked("publish"),
            &asked("call"),
            &asked("connect"),
            "limits.max_connections=1000",
            r#"namespace=[{prefix="room.",join_leave=true}]"#,
            &webhook,
        ])
        .start();
        until("the keys were read", || server.admin.metrics().value("encke_issuer_keys") == 1.0);
        until("Redis is there", || server.admin.metrics().value("encke_engine_up") == 1.0);
        let token =
            key.sign(&json!({"sub": "alice", "channels": {"*": ["subscribe", "publish", "presence"]}}));
        let mut client = encke_tests::Client::connect(server.public, &format!("token={token}"));
        assert!(client.request(r#"{"id":1,"subscribe":{"channel":"news"}}"#)["ok"].is_object());
        server.admin.publish("news", 1);
        let left = client.drop_connection();
        server.await_phase(&left.session, "suspended");
        Self { server, _redis: redis, _backend: backend, _issuer: issuer }
    }
}
