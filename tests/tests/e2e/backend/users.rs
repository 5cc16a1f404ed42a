use encke_tests::Client;
use encke_tests::tokens::{SECRET, sign};
use serde_json::json;

use super::{
    DISCONNECTED, KICKED, UNAUTHORIZED, assert_error, assert_ok, client_of, connect, launch, now, revoke,
    token,
};
use crate::restart::RestartableServer;

#[test]
fn all_connections_of_a_user_are_dropped_and_no_others() {
    let server = launch().start();
    let mut alice = [client_of(&server, "alice"), client_of(&server, "alice")];
    let suspended = client_of(&server, "alice").drop_connection();
    server.await_phase(&suspended.session, "suspended");
    let mut bob = client_of(&server, "bob");
    let answer = server.admin.request("POST", "/api/users/alice/disconnect");
    assert_eq!(assert_ok(&answer), json!({"sessions": 3}));
    for client in &mut alice {
        assert_eq!(client.close_code(), Some(DISCONNECTED));
        let query = format!("resume={}&token={}", client.hello.resume, token("alice", json!({})));
        assert!(Client::connect(server.public, &query).hello.recovered);
    }
    bob.subscribe("news");
    let other = server.admin.request("POST", "/api/users/al/disconnect");
    assert_eq!(assert_ok(&other), json!({"sessions": 0}));
}

#[test]
fn revoked_user_is_refused_until_it_has_a_later_token() {
    let server = launch().start();
    let before = token("ali ce/é", json!({}));
    let timeless = sign(&json!({"sub": "ali ce/é"}), SECRET);
    let mut live = connect(&server, &before);
    let suspended = connect(&server, &timeless).drop_connection();
    server.await_phase(&suspended.session, "suspended");
    let mut bob = client_of(&server, "bob");
    assert_eq!(assert_ok(&revoke(server.admin, "ali%20ce%2F%C3%A9")), json!({"sessions": 2}));
    assert_eq!(live.close_code(), Some(KICKED));
    server.await_removal(&suspended.session);
    for token in [&before, &timeless] {
        assert_eq!(Client::refusal_code(server.public, &format!("token={token}")), UNAUTHORIZED);
    }
    // A refresh in another user's session is refused for the same reasons.
    let error =
        client_of(&server, "eve").request(&json!({"id": 1, "refresh": {"token": before}}).to_string());
    assert_eq!(error["error"]["code"], "unauthorized", "{error}");
    assert_eq!(error["error"]["message"], "the token was issued before its user was revoked");
    let error =
        client_of(&server, "eve").request(&json!({"id": 1, "refresh": {"token": timeless}}).to_string());
    let expected = "the token's `iat` is missing, but required because tokens of the user were revoked";
    assert_eq!(error["error"]["message"], expected, "{error}");
    client_of(&server, "ali ce/é").subscribe("news");
    bob.subscribe("news");
    assert!(server.admin.metrics().refusals("token_revoked") >= 1.0);
}

#[test]
fn a_user_without_sessions_is_revoked_too() {
    let server = launch().start();
    let before = token("alice", json!({}));
    assert_eq!(assert_ok(&revoke(server.admin, "alice")), json!({"sessions": 0}));
    assert_eq!(Client::refusal_code(server.public, &format!("token={before}")), UNAUTHORIZED);
    for path in ["/api/users/", "/api/users/%FF", &format!("/api/users/{}", "x".repeat(256))] {
        assert_error(&server.admin.request("DELETE", path), 400, "bad_request");
    }
}

/// Without tokens, there are no users.
#[test]
fn revoking_without_tokens_has_no_effect() {
    let server = encke_tests::RunningServer::with(&[]);
    let mut client = server.client();
    assert_eq!(assert_ok(&revoke(server.admin, "alice")), json!({"sessions": 0}));
    client.subscribe("news");
}

#[test]
fn sessions_are_listed_by_user() {
    let server = launch().start();
    let _alice: Vec<_> = (0..3).map(|_| client_of(&server, "alice")).collect();
    let _bob: Vec<_> = (0..3).map(|_| client_of(&server, "bob")).collect();
    let (mut found, mut cursor) = (Vec::new(), json!(0));
    while !cursor.is_null() {
        let page = assert_ok(&server.admin.get(&format!("/api/sessions?user=bob&limit=2&cursor={cursor}")));
        let sessions = page["sessions"].as_array().expect("an array").clone();
        assert!(sessions.len() <= 2, "{page}");
        found.extend(sessions);
        cursor = page["next_cursor"].clone();
    }
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.iter().all(|session| session["user"] == "bob"), "{found:?}");
}

#[test]
fn revocations_survive_a_restart() {
    let secret = format!("auth.secret={SECRET}");
    let mut server = RestartableServer::with(&[&secret]);
    let before = token("alice", json!({}));
    let bob = client_of(&server.server, "bob");
    assert_eq!(assert_ok(&revoke(server.server.admin, "alice")), json!({"sessions": 0}));
    server.restart();
    assert_eq!(Client::refusal_code(server.server.public, &format!("token={before}")), UNAUTHORIZED);
    // Restored sessions are found by their users.
    let query = format!("resume={}&token={}", bob.hello.resume, token("bob", json!({})));
    let mut bob = Client::connect(server.server.public, &query);
    assert!(bob.hello.recovered);
    assert_eq!(assert_ok(&revoke(server.server.admin, "bob")), json!({"sessions": 1}));
    assert_eq!(bob.close_code(), Some(KICKED));
}

#[test]
fn maximum_lifetime_requires_tokens_with_an_expiry() {
    let server = launch().set("auth.max_token_lifetime=1h").start();
    let sign = |claims| sign(&claims, SECRET);
    let now = now();
    let good = sign(json!({"sub": "alice", "iat": now, "exp": now + 3599.0}));
    connect(&server, &good);
    for claims in [
        json!({"sub": "alice", "iat": now, "exp": now + 3601.0}),
        json!({"sub": "alice", "exp": now + 60.0}),
        json!({"sub": "alice", "iat": now}),
    ] {
        assert_eq!(Client::refusal_code(server.public, &format!("token={}", sign(claims))), UNAUTHORIZED);
    }
}
