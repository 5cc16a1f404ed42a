//! Tests key sets as published by an issuer.

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};

use super::tests::{
    ES256_BOB, ES256_PEM, NOW, RS256_ALICE, RS256_ALICE_R1, RS256_PEM, SECRET, auth, forge, identify, secret,
    user,
};
use super::*;
use crate::auth::keys::{p256_from_pem, rsa_from_pem};

/// The RSA key as a JWK.
fn rsa() -> Value {
    let key = rsa_from_pem(RS256_PEM).expect("an RSA key");
    let numbers = pkcs1::RsaPublicKey::try_from(&key[..]).expect("an RSA key");
    let text = |number: &[u8]| BASE64URL_NOPAD.encode(number);
    json!({
        "kty": "RSA", "n": text(numbers.modulus.as_bytes()), "e": text(numbers.public_exponent.as_bytes()),
    })
}

/// The P-256 key as a JWK.
fn p256() -> Value {
    let key = p256_from_pem(ES256_PEM).expect("a P-256 key");
    let (x, y) = key[1..].split_at(32);
    json!({"kty": "EC", "crv": "P-256", "x": BASE64URL_NOPAD.encode(x), "y": BASE64URL_NOPAD.encode(y)})
}

/// Returns the key with these members added or replaced.
fn with(key: &Value, members: &Value) -> Value {
    let mut key = key.clone();
    for (name, value) in members.as_object().expect("an object") {
        key[name] = value.clone();
    }
    key
}

fn set(keys: &[Value]) -> Vec<u8> {
    json!({"keys": keys}).to_string().into_bytes()
}

fn keys(text: &[u8]) -> Result<(Vec<Key>, usize), String> {
    parse_key_set(text).map_err(|error| error.to_string())
}

/// Creates settings that accept tokens signed by the keys of this published set, or by `own`.
fn published(text: &[u8], own: Vec<Key>) -> Auth {
    let fetched = KeySet::default();
    fetched.replace(keys(text).expect("a set").0);
    Auth { key_set: Some(Arc::new(fetched)), ..auth(own) }
}

#[test]
fn tokens_signed_by_a_key_of_the_set_are_valid() {
    let all = set(&[with(&rsa(), &json!({"kid": "r1", "use": "sig", "alg": "RS256"})), p256()]);
    let auth = published(&all, vec![secret(None, SECRET)]);
    assert_eq!(identify(&auth, RS256_ALICE_R1), user("alice"));
    assert_eq!(identify(&auth, RS256_ALICE), user("alice"), "the only key of its algorithm");
    assert_eq!(identify(&auth, ES256_BOB), user("bob"));
    assert_eq!(
        identify(&auth, &forge(r#"{"alg":"HS256"}"#, r#"{"sub":"eve"}"#, SECRET.as_bytes())),
        user("eve")
    );
    for token in [RS256_ALICE_R1, RS256_ALICE, ES256_BOB] {
        assert!(auth.has_key_for(token), "{token}");
    }
}

#[test]
fn an_unknown_key_is_distinguished_from_a_bad_token() {
    let auth = published(&set(&[with(&p256(), &json!({"kid": "e1"}))]), Vec::new());
    for (token, error) in [
        (forge(r#"{"alg":"ES256","kid":"e2"}"#, "{}", b"x"), AuthError::UnknownKey),
        (RS256_ALICE.to_owned(), AuthError::WrongAlgorithm),
        (RS256_ALICE_R1.to_owned(), AuthError::UnknownKey),
    ] {
        assert_eq!(identify(&auth, &token), Err(error), "{token}");
        assert!(error.has_unknown_key() && !auth.has_key_for(&token), "{token}");
    }
    // These tokens are invalid regardless of which keys are fetched.
    for token in ["nonsense", &forge(r#"{"alg":"ES256","kid":"e1"}"#, "{}", b"x"), ES256_BOB] {
        assert!(auth.has_key_for(token), "{token}");
    }
    // No key set has been fetched yet.
    let auth = Auth { key_set: Some(Arc::default()), ..Auth::default() };
    assert!(auth.needs_token() && !auth.has_key_for(ES256_BOB));
    assert_eq!(identify(&auth, ES256_BOB), Err(AuthError::WrongAlgorithm));
}

#[test]
fn a_replaced_key_is_no_longer_valid() {
    let auth = published(&set(&[rsa()]), Vec::new());
    assert_eq!(identify(&auth, RS256_ALICE), user("alice"));
    auth.key_set.as_ref().expect("a set").replace(keys(&set(&[p256()])).expect("a set").0);
    assert_eq!(identify(&auth, RS256_ALICE), Err(AuthError::WrongAlgorithm));
    assert_eq!(identify(&auth, ES256_BOB), user("bob"));
}

#[test]
fn a_configured_key_takes_precedence_over_a_fetched_one() {
    let auth = published(&set(&[with(&rsa(), &json!({"kid": "r1"}))]), vec![secret(Some("r1"), SECRET)]);
    let own = forge(r#"{"alg":"HS256","kid":"r1"}"#, r#"{"sub":"eve"}"#, SECRET.as_bytes());
    assert_eq!(identify(&auth, &own), user("eve"));
    assert_eq!(identify(&auth, RS256_ALICE_R1), user("alice"), "the algorithms differ");
}

/// A public key must not work as a secret, and a set must not introduce secrets.
#[test]
fn a_set_contains_no_secrets() {
    let secret_key = json!({"kty": "oct", "k": BASE64URL_NOPAD.encode(SECRET.as_bytes()), "alg": "HS256"});
    let auth = published(&set(&[p256(), secret_key.clone()]), Vec::new());
    let forged = forge(r#"{"alg":"HS256"}"#, r#"{"sub":"eve"}"#, SECRET.as_bytes());
    assert_eq!(identify(&auth, &forged), Err(AuthError::WrongAlgorithm));
    assert!(keys(&set(&[secret_key])).is_err());
}

#[test]
fn unusable_keys_are_ignored_but_reported_if_no_other_is_left() {
    let named = |key: &Value, more: Value| with(&with(key, &json!({"kid": "k"})), &more);
    let of_k = |problem: &str| {
        format!("contains no key that verifies RS256 or ES256: the key with kid `k` {problem}")
    };
    let short = BASE64URL_NOPAD.encode(&[0x80; 128]);
    let table = [
        (named(&rsa(), json!({"use": "enc"})), of_k("is not for signatures")),
        (named(&rsa(), json!({"key_ops": ["encrypt"]})), of_k("is not for signatures")),
        (named(&rsa(), json!({"alg": "RS512"})), of_k("is for another algorithm")),
        (named(&rsa(), json!({"alg": "RSA-OAEP"})), of_k("is for another algorithm")),
        (named(&p256(), json!({"crv": "P-384"})), of_k("is for another algorithm")),
        (named(&rsa(), json!({"n": short})), of_k("is unusable: the RSA key must have 2048 to 8192 bits")),
        (named(&rsa(), json!({"n": "!"})), of_k("is not valid base64url")),
        (named(&rsa(), json!({"n": ""})), of_k("is unusable: the RSA key must have 2048 to 8192 bits")),
        (
            named(&p256(), json!({"x": "AAAA"})),
            of_k("is unusable: not a P-256 public key (in PEM: `-----BEGIN PUBLIC KEY-----`)"),
        ),
        (
            named(&p256(), json!({"x": BASE64URL_NOPAD.encode(&[7; 32])})),
            of_k("is unusable: not a P-256 public key (in PEM: `-----BEGIN PUBLIC KEY-----`)"),
        ),
    ];
    for (key, error) in table {
        assert_eq!(keys(&set(std::slice::from_ref(&key))).map(|_| ()), Err(error), "{key}");
        let (found, ignored) =
            keys(&set(&[key, json!({"kty": "new"}), json!(7), rsa()])).expect("one is good");
        assert_eq!((found.len(), ignored), (1, 3));
    }
    let verifies =
        with(&p256(), &json!({"use": "sig", "key_ops": ["verify"], "alg": "ES256", "x5t": "more"}));
    assert_eq!(keys(&set(&[verifies])).map(|(found, _)| found.len()), Ok(1));
    let padded = format!("{}=", p256()["x"].as_str().expect("text"));
    assert_eq!(keys(&set(&[with(&p256(), &json!({"x": padded}))])).map(|(found, _)| found.len()), Ok(1));
}

#[test]
fn invalid_sets_are_rejected() {
    for (text, error) in [
        ("", "is not a JSON Web Key Set: EOF while parsing"),
        ("<html>", "is not a JSON Web Key Set: expected value"),
        ("[]", "is not a JSON Web Key Set: invalid length 0"),
        ("{}", "is not a JSON Web Key Set: missing field `keys`"),
        (r#"{"keys":{}}"#, "is not a JSON Web Key Set: invalid type: map"),
        (r#"{"keys":[]}"#, "contains no key that verifies RS256 or ES256"),
    ] {
        let found = keys(text.as_bytes()).expect_err(text);
        assert!(found.starts_with(error), "{text}: {found}");
    }
    assert_eq!(keys(&set(&vec![rsa(); 64])).map(|(found, _)| found.len()), Ok(64));
    assert_eq!(keys(&set(&vec![rsa(); 65])).map(|_| ()), Err("contains more than 64 keys".to_owned()));
}

#[test]
fn a_configured_audience_is_required_in_tokens() {
    let bad = |problem| Err(AuthError::BadClaim { claim: "aud", problem });
    let named = Auth { audience: Some("chat".into()), ..auth(vec![secret(None, SECRET)]) };
    for (claims, expected) in [
        (r#"{"sub":"a","aud":"chat"}"#, user("a")),
        (r#"{"sub":"a","aud":["mail","chat"]}"#, user("a")),
        (r#"{"sub":"a","aud":"mail"}"#, bad("does not contain this server's audience (auth.audience)")),
        (r#"{"sub":"a","aud":["mail"]}"#, bad("does not contain this server's audience (auth.audience)")),
        (r#"{"sub":"a","aud":[]}"#, bad("does not contain this server's audience (auth.audience)")),
        (
            r#"{"sub":"a","aud":["mail",["chat"]]}"#,
            bad("does not contain this server's audience (auth.audience)"),
        ),
        (r#"{"sub":"a","aud":{"chat":1}}"#, bad("does not contain this server's audience (auth.audience)")),
        (r#"{"sub":"a","aud":null}"#, bad("does not contain this server's audience (auth.audience)")),
        (r#"{"sub":"a"}"#, bad("is missing (auth.audience)")),
    ] {
        let token = forge(r#"{"alg":"HS256"}"#, claims, SECRET.as_bytes());
        assert_eq!(identify(&named, &token), expected, "{claims}");
    }
    let grant = Grant {
        sub: "bob".to_owned(),
        issued: Some(NOW),
        expires: None,
        channels: [].into(),
        join: Vec::new(),
    };
    assert_eq!(identify(&named, &named.sign(&grant, None).expect("a secret")), user("bob"));
}
