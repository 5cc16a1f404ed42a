//! The metrics as Prometheus scrapes them, and the places that refer to them: alerts, dashboard panels and
//! the reference.

// deploy/alerts.yml and deploy/grafana.json.
mod alerts_and_panels;
// The README's reference.
mod reference;

use std::path::{Path, PathBuf};

use encke_tests::binaries;
use encke_tests::redis::Redis;
use encke_tests::tokens::{IssuerKey, key_set};
use encke_tests::waiting::until;
use encke_tests::{Backend, BackendReply, Launch, RunningServer};
use serde_json::json;

/// Server with every feature configured and in use, so that every metric has a value.
struct FullServer {
    server: RunningServer,
    _redis: Redis,
    _backend: Backend,
    _issuer: Backend,
}

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(file)
}

impl FullServer {
    fn start() -> Self {
        let (redis, backend, issuer) = (Redis::start(), Backend::start(), Backend::start());
        let key = IssuerKey::generate("a");
        let set = key_set([&key]);
        issuer.reply_with(move |_| BackendReply::json(&set));
        backend.reply_with(|_| BackendReply::json("{}"));
        let hook = |kind: &str| format!("backend.{kind}={}", backend.url("/"));
        let events = r#""session.opened","channel.occupied""#;
        let webhook = format!(
            "webhook=[{{url=\"{}\",events=[{events}],secret=\"{}\",name=\"NAME\"}}]",
            backend.url("/webhook"),
            crate::webhooks::SECRET
        );
        let server = Launch::with(&[
            "engine.kind=redis",
            &format!("engine.url={}", redis.url()),
            &format!("auth.jwks={}", issuer.url("/keys")),
            &hook("subscribe"),
            &hook("publish"),
            &hook("call"),
            &hook("connect"),
            "limits.max_connections=1000",
            r#"namespace=[{prefix="room.",join_leave=true}]"#,
            &webhook,
        ])
        .with_binary(binaries::encke_with_otlp())
        .start();
        until("the keys are fetched", || server.admin.metrics().value("encke_issuer_keys") == 1.0);
        until("Redis is connected", || server.admin.metrics().value("encke_engine_up") == 1.0);
        let token =
            key.sign(&json!({"sub": "alice", "channels": {"*": ["subscribe", "publish", "presence"]}}));
        let mut client = encke_tests::Client::connect(server.public, &format!("token={token}"));
        assert!(client.request(r#"{"id":1,"subscribe":{"channel":"news"}}"#)["ok"].is_object());
        server.admin.publish("news", 1);
        let hello = client.drop_connection();
        server.await_phase(&hello.session, "suspended");
        Self { server, _redis: redis, _backend: backend, _issuer: issuer }
    }
}
