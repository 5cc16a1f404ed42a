//! Keys as an issuer publishes them.

use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::DecodingKey;
use serde_json::{Value, json};

use super::tests::{
    ES256_BOB, ES256_PEM, NOW, RS256_ALICE, RS256_ALICE_R1, RS256_PEM, SECRET, auth, forge, identify, secret,
    user,
};
use super::*;

/// The two numbers of the RSA key, as a set has them.
fn rsa() -> Value {
    let key = DecodingKey::from_rsa_pem(RS256_PEM).expect("an RSA key");
    let numbers = pkcs1::RsaPublicKey::try_from(key.try_get_as_bytes().expect("DER")).expect("an RSA key");
    let text = |number: &[u8]| BASE64URL_NOPAD.encode(number);
    json!({
        "kty": "RSA", "n": text(numbers.modulus.as_bytes()), "e": text(numbers.public_exponent.as_bytes()),
    })
}

/// The point of the P-256 key.
fn p256() -> Value {
    let key = DecodingKey::from_ec_pem(ES256_PEM).expect("a P-256 key");
    let (x, y) = key.try_get_as_bytes().expect("a point")[1..].split_at(32);
    json!({"kty": "EC", "crv": "P-256", "x": BASE64URL_NOPAD.encode(x), "y": BASE64URL_NOPAD.encode(y)})
}

/// The key with these members, too, or instead.
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

/// Tokens are good that these keys of an issuer have signed, or `own`.
fn published(text: &[u8], own: Vec<Key>) -> Auth {
    let fetched = KeySet::default();
    fetched.replace(keys(text).expect("a set").0);
    Auth { key_set: Some(Arc::new(fetched)), ..auth(own) }
}

#[test]
fn tokens_are_good_that_a_key_of_the_set_has_signed() {
    let all = set(&[with(&rsa(), &json!({"kid": "r1", "use": "sig", "alg": "RS256"})), p256()]);
    let auth = published(&all, vec![secret(None, SECRET)]);
    assert_eq!(identify(&auth, RS256_ALICE_R1), user("alice"));
    assert_eq!(identify(&auth, RS256_ALICE), user("alice"), "the only one of its algorithm");
    assert_eq!(identify(&auth, ES256_BOB), user("bob"));
    assert_eq!(
        identify(&auth, &forge(r#"{"alg":"HS256"}"#, r#"{"sub":"eve"}"#, SECRET.as_bytes())),
        user("eve")
    );
    for token in [RS256_ALICE_R1, RS256_ALICE, ES256_BOB] {
        assert!(auth.has_key_of(token), "{token}");
    }
}

#[test]
fn a_token_of_a_key_that_is_not_there_may_be_that_of_one_to_come() {
    let auth = published(&set(&[with(&p256(), &json!({"kid": "e1"}))]), Vec::new());
    for (token, error) in [
        (forge(r#"{"alg":"ES256","kid":"e2"}"#, "{}", b"x"), AuthError::UnknownKey),
        (RS256_ALICE.to_owned(), AuthError::WrongAlgorithm),
        (RS256_ALICE_R1.to_owned(), AuthError::UnknownKey),
    ] {
        assert_eq!(identify(&auth, &token), Err(error), "{token}");
        assert!(error.is_of_another_key() && !auth.has_key_of(&token), "{token}");
    }
    // These are bad whatever keys there may be.
    for token in ["nonsense", &forge(r#"{"alg":"ES256","kid":"e1"}"#, "{}", b"x"), ES256_BOB] {
        assert!(auth.has_key_of(token), "{token}");
    }
    // Nothing was read yet.
    let auth = Auth { key_set: Some(Arc::default()), ..Auth::default() };
    assert!(auth.needs_token() && !auth.has_key_of(ES256_BOB));
    assert_eq!(identify(&auth, ES256_BOB), Err(AuthError::WrongAlgorithm));
}

#[test]
fn a_key_that_is_replaced_signs_no_longer() {
    let auth = published(&set(&[rsa()]), Vec::new());
    assert_eq!(identify(&auth, RS256_ALICE), user("alice"));
    auth.key_set.as_ref().expect("a set").replace(keys(&set(&[p256()])).expect("a set").0);
    assert_eq!(identify(&auth, RS256_ALICE), Err(AuthError::WrongAlgorithm));
    assert_eq!(identify(&auth, ES256_BOB), user("bob"));
}

#[test]
fn a_key_of_the_configuration_counts_before_one_of_the_same_name() {
    let auth = published(&set(&[with(&rsa(), &json!({"kid": "r1"}))]), vec![secret(Some("r1"), SECRET)]);
    let own = forge(r#"{"alg":"HS256","kid":"r1"}"#, r#"{"sub":"eve"}"#, SECRET.as_bytes());
    assert_eq!(identify(&auth, &own), user("eve"));
    assert_eq!(identify(&auth, RS256_ALICE_R1), user("alice"), "the algorithms differ");
}

/// A public key, published, is no secret; nor does a set bring secrets.
#[test]
fn nothing_in_a_set_is_a_secret() {
    let secret_key = json!({"kty": "oct", "k": BASE64URL_NOPAD.encode(SECRET.as_bytes()), "alg": "HS256"});
    let auth = published(&set(&[p256(), secret_key.clone()]), Vec::new());
    let forged = forge(r#"{"alg":"HS256"}"#, r#"{"sub":"eve"}"#, SECRET.as_bytes());
    assert_eq!(identify(&auth, &forged), Err(AuthError::WrongAlgorithm));
    assert!(keys(&set(&[secret_key])).is_err());
}

#[test]
fn keys_that_are_not_for_us_are_ignored_and_said_of_a_set_that_has_no_others() {
    let named = |key: &Value, more: Value| with(&with(key, &json!({"kid": "k"})), &more);
    let of_k =
        |problem: &str| format!("has no key that verifies RS256 or ES256: the key with kid `k` {problem}");
    let short = BASE64URL_NOPAD.encode(&[0x80; 128]);
    let table = [
        (named(&rsa(), json!({"use": "enc"})), of_k("is not for signatures")),
        (named(&rsa(), json!({"key_ops": ["encrypt"]})), of_k("is not for signatures")),
        (named(&rsa(), json!({"alg": "RS512"})), of_k("is for another algorithm")),
        (named(&rsa(), json!({"alg": "RSA-OAEP"})), of_k("is for another algorithm")),
        (named(&p256(), json!({"crv": "P-384"})), of_k("is for another algorithm")),
        (named(&rsa(), json!({"n": short})), of_k("is unusable: the RSA key must have 2048 to 8192 bits")),
        (named(&rsa(), json!({"n": "!"})), of_k("is not in base64url")),
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
fn what_is_no_set() {
    for (text, error) in [
        ("", "is not a JSON Web Key Set: EOF while parsing"),
        ("<html>", "is not a JSON Web Key Set: expected value"),
        ("[]", "is not a JSON Web Key Set: invalid length 0"),
        ("{}", "is not a JSON Web Key Set: missing field `keys`"),
        (r#"{"keys":{}}"#, "is not a JSON Web Key Set: invalid type: map"),
        (r#"{"keys":[]}"#, "has no key that verifies RS256 or ES256"),
    ] {
        let found = keys(text.as_bytes()).expect_err(text);
        assert!(found.starts_with(error), "{text}: {found}");
    }
    assert_eq!(keys(&set(&vec![rsa(); 64])).map(|(found, _)| found.len()), Ok(64));
    assert_eq!(keys(&set(&vec![rsa(); 65])).map(|_| ()), Err("has more than 64 keys".to_owned()));
}

#[test]
fn a_server_with_a_name_takes_tokens_that_are_for_it() {
    let bad = |problem| Err(AuthError::BadClaim { claim: "aud", problem });
    let named = Auth { audience: Some("chat".into()), ..auth(vec![secret(None, SECRET)]) };
    for (claims, expected) in [
        (r#"{"sub":"a","aud":"chat"}"#, user("a")),
        (r#"{"sub":"a","aud":["mail","chat"]}"#, user("a")),
        (r#"{"sub":"a","aud":"mail"}"#, bad("is for someone else (auth.audience)")),
        (r#"{"sub":"a","aud":["mail"]}"#, bad("is for someone else (auth.audience)")),
        (r#"{"sub":"a","aud":[]}"#, bad("is for someone else (auth.audience)")),
        (r#"{"sub":"a","aud":["mail",["chat"]]}"#, bad("is for someone else (auth.audience)")),
        (r#"{"sub":"a","aud":{"chat":1}}"#, bad("is for someone else (auth.audience)")),
        (r#"{"sub":"a","aud":null}"#, bad("is missing (auth.audience)")),
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
