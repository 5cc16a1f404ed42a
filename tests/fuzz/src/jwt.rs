//! Fuzzes client tokens: garbage, and garbage with a valid signature, so that the code that reads claims is
//! reached.

use std::sync::LazyLock;

use data_encoding::BASE64URL_NOPAD;
use encke_server::auth::{ApiKeys, Auth, AuthError, Hosts, Identity, Key, Origins, Permission};
use encke_timeouts::clock::UnixTime;
use ring::hmac;
use serde_json::Value;

const SECRET: &str = "the secret of all tokens without a key id";
const NAMED_SECRET: &str = "the secret of all tokens whose key id is a";
const NOW_SECS: u64 = 1_700_000_000;

static AUTH: LazyLock<Auth> = LazyLock::new(|| {
    let keys = [(None, SECRET), (Some("a"), NAMED_SECRET)];
    let keys = keys.map(|(kid, secret)| Key::from_secret(kid, secret).expect("a long secret"));
    Auth::new(keys.into(), ApiKeys::default(), Origins::default(), Hosts::default())
});

/// Checks a token. The first byte of the input determines the meaning of the rest. `u`: an unsigned token.
/// `m`: a text to be signed unchanged. Anything else: the text of the header, a line break, and the text of
/// the claims, both to be encoded and signed.
pub(crate) fn run(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else { return };
    match first {
        b'u' => {
            let Ok(token) = std::str::from_utf8(rest) else { return };
            assert!(identify(token).is_err(), "an unsigned token was accepted: {token}");
        }
        b'm' => {
            let Ok(message) = std::str::from_utf8(rest) else { return };
            drop(identify(&sign(message, SECRET)));
        }
        _ => {
            let mut parts = rest.splitn(2, |byte| *byte == b'\n');
            check_signed(parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        }
    }
}

fn identify(token: &str) -> Result<Identity, AuthError> {
    let identity = AUTH.identify(Some(token), UnixTime::from_secs(NOW_SECS));
    if let Err(error) = &identity {
        let message = error.to_string();
        assert!(!message.is_empty() && !message.contains(SECRET) && !message.contains(NAMED_SECRET));
    }
    identity
}

fn sign(message: &str, secret: &str) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), message.as_bytes());
    format!("{message}.{}", BASE64URL_NOPAD.encode(tag.as_ref()))
}

fn check_signed(header: &[u8], claims: &[u8]) {
    let message = [header, claims].map(|part| BASE64URL_NOPAD.encode(part)).join(".");
    let json = serde_json::from_slice::<Value>;
    let is_named = json(header).is_ok_and(|header| header["kid"] == "a");
    let identity = identify(&sign(&message, if is_named { NAMED_SECRET } else { SECRET }));
    // The server skips values that it does not use, so it accepts some that a strict parser rejects.
    let (Ok(header), Ok(claims)) = (json(header), json(claims)) else { return };
    let shown = || format!("{header} {claims}");
    match identity {
        Ok(identity) => {
            assert_eq!(header["alg"], "HS256", "{}", shown());
            assert!(is_named || header["kid"].is_null(), "{}", shown());
            assert!(header["crit"].is_null() && claims["aud"].is_null(), "{}", shown());
            assert_eq!(identity.user(), claims["sub"].as_str(), "{}", shown());
            assert!(identity.user().is_some_and(|user| (1..=255).contains(&user.len())), "{}", shown());
            assert!(claims["exp"].as_f64().is_none_or(|exp| exp >= now()), "{}", shown());
            assert_eq!(identity.expires().is_some(), !claims["exp"].is_null(), "{}", shown());
            check_permissions(&identity, &claims["channels"]);
        }
        Err(AuthError::BadSignature) => panic!("a valid signature was rejected: {}", shown()),
        Err(AuthError::Expired) => {
            assert!(claims["exp"].as_f64().is_some_and(|exp| exp <= now()), "{}", shown());
        }
        Err(AuthError::NotYetValid) => {
            assert!(claims["nbf"].as_f64().is_some_and(|nbf| nbf > now()), "{}", shown());
        }
        Err(_) => {}
    }
}

#[expect(clippy::cast_precision_loss, reason = "a double can represent it")]
fn now() -> f64 {
    NOW_SECS as f64
}

/// Checks that the identity has exactly the permissions in the claim.
fn check_permissions(identity: &Identity, claim: &Value) {
    let rules: Vec<_> = claim.as_object().into_iter().flatten().collect();
    let may = |name: &str, channel: &str| {
        rules.iter().any(|(pattern, allowed)| {
            let covers = match pattern.strip_suffix('*') {
                Some(beginning) => channel.starts_with(beginning),
                None => channel == *pattern,
            };
            covers && allowed.as_array().is_some_and(|allowed| allowed.iter().any(|one| one == name))
        })
    };
    let of_patterns = rules.iter().flat_map(|(pattern, _)| {
        let beginning = pattern.trim_end_matches('*');
        [pattern.to_string(), beginning.to_owned(), format!("{beginning}x"), format!("x{beginning}")]
    });
    for channel in of_patterns.chain(["news".to_owned(), "*".to_owned(), String::new()]) {
        for (permission, name) in [
            (Permission::Subscribe, "subscribe"),
            (Permission::Publish, "publish"),
            (Permission::Presence, "presence"),
            (Permission::History, "history"),
        ] {
            assert_eq!(
                identity.allows(permission, &channel),
                may(name, &channel),
                "{name} {channel:?}: {claim}"
            );
        }
    }
}
