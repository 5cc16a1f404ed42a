use encke_tests::tokens::{SECRET, sign};
use encke_tests::{Client, RunningServer};
use serde_json::{Value, json};

use super::{DISCONNECTED, KICKED, UNAUTHORIZED, revoke, token};

#[test]
fn all_connections_of_a_user_are_listed_and_dropped_and_no_others() {
    let server = RunningServer::with_tokens(&[]);
    let mut alice = [server.client_of("alice"), server.client_of("alice")];
    server.suspend(server.client_of("alice"));
    let mut bob = server.client_of("bob");
    let (mut found, mut cursor) = (Vec::new(), json!(0));
    while !cursor.is_null() {
        let path = format!("/api/sessions?user=alice&limit=2&cursor={cursor}");
        let page = server.admin.get(&path).ok();
        let sessions: &[Value] = page["sessions"].as_array().expect("an array");
        assert!(sessions.len() <= 2, "{page}");
        found.extend(sessions.iter().map(|session| session["user"].clone()));
        cursor = page["next_cursor"].clone();
    }
    assert_eq!(found, ["alice"; 3]);

    let disconnect = |user: &str| server.admin.request("POST", &format!("/api/users/{user}/disconnect")).ok();
    assert_eq!(disconnect("alice"), json!({"sessions": 3}));
    for client in &mut alice {
        assert_eq!(client.close_code(), Some(DISCONNECTED));
        let query = format!("resume={}&token={}", client.hello.resume, token("alice", json!({})));
        assert!(Client::connect(server.public, &query).hello.recovered);
    }
    bob.subscribe("news");
    assert_eq!(disconnect("al"), json!({"sessions": 0}));
}

#[test]
fn revoked_user_is_refused_until_it_has_a_later_token() {
    let server = RunningServer::with_tokens(&[]);
    let before = token("ali ce/é", json!({}));
    let timeless = sign(&json!({"sub": "ali ce/é"}), SECRET);
    let mut live = server.client_with(&before);
    let suspended = server.suspend(server.client_with(&timeless));
    let mut bob = server.client_of("bob");
    assert_eq!(revoke(server.admin, "ali%20ce%2F%C3%A9").ok(), json!({"sessions": 2}));
    assert_eq!(live.close_code(), Some(KICKED));
    server.await_removal(&suspended.session);
    for (token, message) in [
        (&before, "the token was issued before its user was revoked"),
        (&timeless, "the token's `iat` is missing, but required because tokens of the user were revoked"),
    ] {
        assert_eq!(Client::refusal_code(server.public, &format!("token={token}")), UNAUTHORIZED);
        // A refresh in another user's session is refused for the same reason.
        let refresh = json!({"id": 1, "refresh": {"token": token}}).to_string();
        let reply = server.client_of("eve").request(&refresh);
        assert_eq!(reply["error"], json!({"code": "unauthorized", "message": message}));
    }
    server.client_of("ali ce/é").subscribe("news");
    bob.subscribe("news");
    assert!(server.admin.metrics().refusals("token_revoked") >= 1.0);

    // A user without sessions is revoked too.
    let before = token("alice", json!({}));
    assert_eq!(revoke(server.admin, "alice").ok(), json!({"sessions": 0}));
    assert_eq!(Client::refusal_code(server.public, &format!("token={before}")), UNAUTHORIZED);
    for user in ["", "%FF", &"x".repeat(256)] {
        revoke(server.admin, user).assert_error(400, "bad_request");
    }
    // Without tokens, there are no users.
    let open = RunningServer::with(&[]);
    let mut client = open.client();
    assert_eq!(revoke(open.admin, "alice").ok(), json!({"sessions": 0}));
    client.subscribe("news");
}
