//! The metrics as Prometheus scrapes them, and the places that refer to them: alerts, dashboard panels and
//! the reference.

// deploy/alerts.yml and deploy/grafana.json.
mod alerts_and_panels;
// The reference in the documents.
mod reference;

use std::path::{Path, PathBuf};

use encke_tests::redis::Redis;
use encke_tests::tokens::{IssuerKey, key_set};
use encke_tests::waiting::until;
use encke_tests::{Backend, BackendReply, Client, Launch, binaries};
use serde_json::json;

use crate::webhooks::SECRET;

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(file)
}

/// The server has every feature configured and in use, so that every metric has a value.
#[test]
fn metrics_agree_with_reference_alerts_and_panels() {
    let (redis, backend, issuer) = (Redis::start(), Backend::start(), Backend::start());
    let key = IssuerKey::generate("a");
    let set = key_set([&key]);
    issuer.reply_with(move |_| BackendReply::json(&set));
    let hook = |kind: &str| format!("backend.{kind}={}", backend.url(&format!("/{kind}")));
    let events = r#""session.opened","channel.occupied""#;
    let url = backend.url("/webhook");
    let webhook = format!("{{url=\"{url}\",events=[{events}],secret=\"{SECRET}\",name=\"NAME\"}}");
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
        &format!("webhook=[{webhook}]"),
    ])
    .with_binary(binaries::encke_with_otlp())
    .start();
    until("the keys are fetched", || server.admin.metrics().value("encke_issuer_keys") == 1.0);
    until("Redis is connected", || server.admin.metrics().value("encke_engine_up") == 1.0);
    let claims = json!({"sub": "alice", "channels": {"*": ["subscribe", "publish", "presence"]}});
    let mut client = Client::connect(server.public, &format!("token={}", key.sign(&claims)));
    client.subscribe("news");
    server.admin.publish("news", 1);
    server.suspend(client);
    reference::assert_documented(&server.admin.metrics());
    alerts_and_panels::assert_used_metrics_exist(&server);
}
