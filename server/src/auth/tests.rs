use super::*;

pub(super) const SECRET: &str = "0123456789abcdef0123456789abcdef";
const OTHER_SECRET: &str = "fedcba9876543210fedcba9876543210";

/// Public keys whose private keys signed the tokens below and were then discarded.
pub(super) const RS256_PEM: &[u8] = include_bytes!("test_keys/rs256.pem");
pub(super) const ES256_PEM: &[u8] = include_bytes!("test_keys/es256.pem");
const P384_PEM: &[u8] = include_bytes!("test_keys/p384.pem");

/// `{"sub":"alice"}`
pub(super) const RS256_ALICE: &str = "\
    eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSJ9.VlXiV56Hvbq1N9K3U0TgsSxiagAcvAfNT3Ipj3N4Hl\
    aPAw-6-v61UlQWqE184LmgM-jgX-ZD09Vx-z3sjpIhGU9LAvpP5VVranwr0FQ1gVovvqIDTZv-9XuxaK8YgJL-6PuDR8e4XNENBq\
    AGwxGoFPjoY56ZNXHKmSviNPUVwrCctGGEJzEN4Umey97N70eEtl4o4l9HV6F30edAKWhn4x7bpE7O7GSAQzPHkGTLp7Ksc2WKs9\
    D22qM-mwC7R9-Ed9N_cYti6j-cKBMrP9LjOFt8wWh-gtx8DFaQfjIqa7RGGiCcbHZTLHu4Fnu51-zC2xTF3YHSptKtyqToUC8iTA";
/// `{"sub":"alice"}`, with `"kid":"r1"`.
pub(super) const RS256_ALICE_R1: &str = "\
    eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InIxIn0.eyJzdWIiOiJhbGljZSJ9.hjVAJX5KnkKgd-HHDeQLyFjeCMB\
    91dH88JW-shELgSjANzEpUY98-BQIFTS0wLaf9Lf-XbTZdADwaicU6768JObsPyhoM0WEiNG_ULXDVhfjp9pqEAhj9_lwB1H3nzN\
    7M3wFOexUj4qq674YxYTB1VqX20E0AhbyALTSaH3GpNSEvnbu_ghJqQtAlV-_0A2i2ngJOJkZ0EkF8kk4NJlfo_-NjsBV-Njsngu\
    b-jYRTc-clYQIhq8FzNO5twP4YjuxMBHoTTMdioRFWUH-pGgfCS71un182B7tf4Y1FtvW5m7EPGndKESP9iJv_Wj4ziS9ZojUgM6\
    cWzYK5MBWL5ZR_w";
/// `{"sub":"bob"}`
pub(super) const ES256_BOB: &str = "\
    eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJib2IifQ.aXpH7bDOhiwnlJWZrSiGz3e2RvfFoYj42cbCxcvH1njR\
    On4q8Sb5KQIrJsOslDoX-CdPByTfbHUbgnNhmYqqbQ";

pub(super) const NOW: UnixTime = UnixTime::from_secs(1_700_000_000);

pub(super) fn auth(keys: Vec<Key>) -> Auth {
    Auth::new(keys, ApiKeys::default(), Origins::default(), Hosts::default())
}

pub(super) fn secret(kid: Option<&str>, secret: &str) -> Key {
    Key::from_secret(kid, secret).expect("long enough")
}

fn rs256(kid: Option<&str>) -> Key {
    Key::from_pem(kid, Algorithm::Rs256, RS256_PEM).expect("an RSA key")
}

fn es256(kid: Option<&str>) -> Key {
    Key::from_pem(kid, Algorithm::Es256, ES256_PEM).expect("a P-256 key")
}

/// Creates a token with any header and claims, signed with HS256 and `secret` regardless of the header.
pub(super) fn forge(header: &str, claims: &str, secret: &[u8]) -> String {
    let encode = |text: &str| data_encoding::BASE64URL_NOPAD.encode(text.as_bytes());
    let message = format!("{}.{}", encode(header), encode(claims));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
    let signature = ring::hmac::sign(&key, message.as_bytes());
    format!("{message}.{}", data_encoding::BASE64URL_NOPAD.encode(signature.as_ref()))
}

/// Creates a token with these claims, signed with `SECRET`.
fn token(claims: &str) -> String {
    forge(r#"{"alg":"HS256"}"#, claims, SECRET.as_bytes())
}

pub(super) fn identify(auth: &Auth, token: &str) -> Result<Option<String>, AuthError> {
    auth.identify(Some(token), NOW).map(|identity| identity.user().map(ToOwned::to_owned))
}

pub(super) fn user(name: &str) -> Result<Option<String>, AuthError> {
    Ok(Some(name.to_owned()))
}

#[test]
fn without_keys_everything_is_allowed() {
    for token in [None, Some(""), Some("nonsense"), Some(RS256_ALICE)] {
        let identity = Auth::default().identify(token, NOW).expect("anyone");
        assert_eq!((identity.user(), identity.expires()), (None, None));
        assert!(identity.allows(Permission::Publish, "news"));
    }
    assert_eq!(size_of::<Identity>(), size_of::<usize>(), "every session has one");
}

#[test]
fn with_a_key_a_token_is_required() {
    let auth = auth(vec![secret(None, SECRET)]);
    assert_eq!(auth.identify(None, NOW).map(|_| ()), Err(AuthError::Missing));
    assert_eq!(identify(&auth, ""), Err(AuthError::Missing));
    let identity = auth.identify(Some(&token(r#"{"sub":"alice"}"#)), NOW).expect("a good token");
    assert_eq!((identity.user(), identity.expires()), (Some("alice"), None));
    assert!(!identity.allows(Permission::Subscribe, "news"), "without channels nothing is allowed");
}

#[test]
fn each_algorithm_verifies() {
    assert_eq!(identify(&auth(vec![secret(None, SECRET)]), &token(r#"{"sub":"eve"}"#)), user("eve"));
    assert_eq!(identify(&auth(vec![rs256(None)]), RS256_ALICE), user("alice"));
    assert_eq!(identify(&auth(vec![es256(None)]), ES256_BOB), user("bob"));
}

#[test]
fn a_modified_token_is_rejected() {
    for (key, token) in [
        (secret(None, SECRET), token(r#"{"sub":"alice"}"#)),
        (rs256(None), RS256_ALICE.to_owned()),
        (es256(None), ES256_BOB.to_owned()),
    ] {
        let auth = auth(vec![key]);
        let (message, signature) = token.rsplit_once('.').expect("two dots");
        let claims = data_encoding::BASE64URL_NOPAD.encode(br#"{"sub":"root"}"#);
        let header = token.split_once('.').expect("two dots").0;
        let last_bits = if signature.ends_with('A') { "Q" } else { "A" };
        for changed in [
            format!("{header}.{claims}.{signature}"),
            format!("{message}."),
            format!("{message}.{}", &signature[4..]),
            format!("{message}.{}{}", if signature.starts_with('A') { "B" } else { "A" }, &signature[1..]),
            format!("{message}.{}", "A".repeat(signature.len())),
            format!("{message}.{}{last_bits}", &signature[..signature.len() - 1]),
        ] {
            let refused = identify(&auth, &changed);
            assert!(
                matches!(refused, Err(AuthError::BadSignature | AuthError::Malformed)),
                "{changed}: {refused:?}"
            );
        }
    }
}

#[test]
fn malformed_tokens_are_rejected() {
    let auth = auth(vec![secret(None, SECRET)]);
    let crit = forge(r#"{"alg":"HS256","crit":["b64"],"b64":false}"#, r#"{"sub":"a"}"#, SECRET.as_bytes());
    let none = forge(r#"{"alg":"none"}"#, r#"{"sub":"a"}"#, SECRET.as_bytes());
    for text in [
        "a",
        ".",
        "..",
        "...",
        "a.b.c",
        "\u{e4}.\u{f6}.\u{fc}",
        &crit,
        &none,
        &token("[]"),
        &token("1"),
        &token("{"),
    ] {
        assert_eq!(identify(&auth, text), Err(AuthError::Malformed), "{text}");
    }
    let unsigned = none.rsplit_once('.').expect("two dots").0;
    assert_eq!(identify(&auth, &format!("{unsigned}.")), Err(AuthError::Malformed));
    let twice = token(r#"{"sub":"alice","sub":"root"}"#);
    assert_eq!(identify(&auth, &twice), Err(AuthError::Malformed), "the claim is ambiguous");
}

/// Anyone may have the public key, so it must not be possible to sign with it as if it were a secret.
#[test]
fn a_public_key_cannot_be_used_as_a_secret() {
    let der = super::keys::rsa_from_pem(RS256_PEM).expect("an RSA key");
    for secret in [RS256_PEM, &der] {
        for keys in [vec![rs256(None)], vec![rs256(Some("r1"))], vec![rs256(Some("r1")), es256(None)]] {
            let auth = auth(keys);
            for header in [r#"{"alg":"HS256"}"#, r#"{"alg":"HS256","kid":"r1"}"#] {
                let refused = identify(&auth, &forge(header, r#"{"sub":"root"}"#, secret));
                assert!(
                    matches!(refused, Err(AuthError::WrongAlgorithm | AuthError::UnknownKey)),
                    "{refused:?}"
                );
            }
            for header in [r#"{"alg":"RS256"}"#, r#"{"alg":"RS256","kid":"r1"}"#] {
                let refused = identify(&auth, &forge(header, r#"{"sub":"root"}"#, secret));
                assert!(
                    matches!(refused, Err(AuthError::BadSignature | AuthError::UnknownKey)),
                    "{refused:?}"
                );
            }
        }
    }
    for (header, keys) in [
        (r#"{"alg":"HS384"}"#, vec![secret(None, SECRET)]),
        (r#"{"alg":"HS512"}"#, vec![secret(None, SECRET)]),
        (r#"{"alg":"ES256"}"#, vec![secret(None, SECRET)]),
        (r#"{"alg":"RS256"}"#, vec![secret(None, SECRET), es256(None)]),
        (r#"{"alg":"PS256"}"#, vec![rs256(None)]),
        (r#"{"alg":"ES384"}"#, vec![es256(None)]),
        (r#"{"alg":"HS256","kid":"r1"}"#, vec![rs256(Some("r1")), secret(None, SECRET)]),
    ] {
        let token = forge(header, r#"{"sub":"root"}"#, SECRET.as_bytes());
        assert_eq!(identify(&auth(keys), &token), Err(AuthError::WrongAlgorithm), "{header}");
    }
}

#[test]
fn the_kid_selects_the_key() {
    let both = auth(vec![secret(Some("old"), OTHER_SECRET), secret(Some("new"), SECRET), rs256(Some("r1"))]);
    let claims = r#"{"sub":"alice"}"#;
    let signed = |header: &str, secret: &str| forge(header, claims, secret.as_bytes());
    for (token, result) in [
        (signed(r#"{"alg":"HS256","kid":"new"}"#, SECRET), user("alice")),
        (signed(r#"{"alg":"HS256","kid":"old"}"#, OTHER_SECRET), user("alice")),
        (signed(r#"{"alg":"HS256","kid":"old"}"#, SECRET), Err(AuthError::BadSignature)),
        (signed(r#"{"alg":"HS256","kid":"gone"}"#, SECRET), Err(AuthError::UnknownKey)),
        (signed(r#"{"alg":"HS256","kid":""}"#, SECRET), Err(AuthError::UnknownKey)),
        // Without a `kid`, the key must be unambiguous: no token may make the server verify two signatures.
        (signed(r#"{"alg":"HS256"}"#, SECRET), Err(AuthError::MissingKid)),
        (signed(r#"{"alg":"HS256"}"#, "an unknown secret of valid length"), Err(AuthError::MissingKid)),
        (RS256_ALICE.to_owned(), user("alice")),
        (RS256_ALICE_R1.to_owned(), user("alice")),
    ] {
        assert_eq!(identify(&both, &token), result, "{token}");
    }
    let unnamed = auth(vec![secret(None, SECRET)]);
    let named = signed(r#"{"alg":"HS256","kid":"new"}"#, SECRET);
    assert_eq!(identify(&unnamed, &named), Err(AuthError::UnknownKey));
}

#[test]
fn claims_are_checked() {
    let auth = auth(vec![secret(None, SECRET)]);
    let long = format!(r#"{{"sub":"{}"}}"#, "x".repeat(255));
    let too_long = format!(r#"{{"sub":"{}"}}"#, "x".repeat(256));
    let bad = |claim, problem| Err(AuthError::BadClaim { claim, problem });
    for (claims, result) in [
        ("{}", bad("sub", "is missing")),
        (r#"{"sub":null}"#, bad("sub", "is not a string")),
        (r#"{"sub":""}"#, bad("sub", "is empty")),
        (r#"{"sub":7}"#, bad("sub", "is not a string")),
        (&*long, Ok(())),
        (&*too_long, bad("sub", "is longer than 255 bytes")),
        (r#"{"sub":"al\u0007ice"}"#, bad("sub", "contains a control character")),
        (r#"{"sub":"a","exp":1700000001}"#, Ok(())),
        (r#"{"sub":"a","exp":1700000000}"#, Err(AuthError::Expired)),
        (r#"{"sub":"a","exp":1700000000.001}"#, Ok(())),
        (r#"{"sub":"a","exp":1699999999.999}"#, Err(AuthError::Expired)),
        (r#"{"sub":"a","exp":0}"#, Err(AuthError::Expired)),
        (r#"{"sub":"a","exp":18446744073709551615}"#, Ok(())),
        (r#"{"sub":"a","exp":1700000001000}"#, bad("exp", "is in milliseconds instead of seconds")),
        (r#"{"sub":"a","exp":null}"#, bad("exp", "is not a number of seconds since 1970")),
        (r#"{"sub":"a","exp":"1700000001"}"#, bad("exp", "is not a number of seconds since 1970")),
        (r#"{"sub":"a","exp":-1}"#, bad("exp", "is not a number of seconds since 1970")),
        (r#"{"sub":"a","exp":true}"#, bad("exp", "is not a number of seconds since 1970")),
        (r#"{"sub":"a","nbf":1700000000}"#, Ok(())),
        (r#"{"sub":"a","nbf":1700000030}"#, Ok(())),
        (r#"{"sub":"a","nbf":1700000030.5}"#, Err(AuthError::NotYetValid)),
        (r#"{"sub":"a","nbf":"now"}"#, bad("nbf", "is not a number of seconds since 1970")),
        (r#"{"sub":"a","iat":"now"}"#, bad("iat", "is not a number of seconds since 1970")),
        (r#"{"sub":"a","iat":1700000030,"iss":"x","jti":7,"more":{}}"#, Ok(())),
        (r#"{"sub":"a","iat":1700000031}"#, bad("iat", "is in the future")),
        (
            r#"{"sub":"a","aud":"x"}"#,
            bad("aud", "is not accepted: no audience is configured (auth.audience)"),
        ),
        (r#"{"sub":"a","channels":{"news":["subscribe"]}}"#, Ok(())),
        (r#"{"sub":"a","channels":{"a*":["subscribe"]},"join":["a","ab","a"]}"#, Ok(())),
        (r#"{"sub":"a","join":[]}"#, Ok(())),
        (r#"{"sub":"a","join":"a"}"#, bad("join", "is not a list")),
        (
            r#"{"sub":"a","channels":{"a*":["subscribe"]},"join":["a",1]}"#,
            bad("join", "contains an entry that is not a string"),
        ),
        (
            r#"{"sub":"a","channels":{"a":["publish"],"ab":["subscribe"]},"join":["ab","a"]}"#,
            bad("join", "contains a channel without `subscribe` permission in `channels`"),
        ),
        (
            r#"{"sub":"a","channels":{"news":["read"]}}"#,
            bad(
                "channels",
                "contains a permission other than `subscribe`, `publish`, `presence` and `history`",
            ),
        ),
    ] {
        assert_eq!(identify(&auth, &token(claims)).map(|_| ()), result, "{claims}");
    }
}

#[test]
fn identity_contains_expiry_and_permissions() {
    let auth = auth(vec![secret(None, SECRET)]);
    let of = |claims: &str| auth.identify(Some(&token(claims)), NOW).expect("a good token");
    let alice = of(r#"{"sub":"alice","exp":1700000060,"channels":{"news":["subscribe"]}}"#);
    let end = UnixTime::from_secs(1_700_000_060);
    assert_eq!(alice.expires(), Some(end));
    assert_eq!(end.since(NOW), std::time::Duration::from_secs(60));
    assert!(alice.allows(Permission::Subscribe, "news") && !alice.allows(Permission::Publish, "news"));
    assert!(alice.is_same_user(&of(r#"{"sub":"alice"}"#)));
    assert!(!alice.is_same_user(&of(r#"{"sub":"bob"}"#)) && !alice.is_same_user(&Identity::ANONYMOUS));
}

/// If a maximum lifetime is configured, every token must contain both `iat` and `exp`.
#[test]
fn a_token_with_too_long_a_lifetime_is_rejected() {
    let mut auth = auth(vec![secret(None, SECRET)]);
    auth.max_token_lifetime = Some(std::time::Duration::from_secs(60));
    let bad = |claim, problem| Err(AuthError::BadClaim { claim, problem });
    for (claims, result) in [
        (r#"{"sub":"a","iat":1699999990,"exp":1700000050}"#, Ok(())),
        (
            r#"{"sub":"a","iat":1699999990,"exp":1700000051}"#,
            bad("exp", "is too long after `iat` (auth.max_token_lifetime)"),
        ),
        (r#"{"sub":"a","iat":1700000030,"exp":1700000090}"#, Ok(())),
        (r#"{"sub":"a","iat":1700000031,"exp":1700000091}"#, bad("iat", "is in the future")),
        (r#"{"sub":"a","exp":1700000050}"#, bad("iat", "is missing (auth.max_token_lifetime)")),
        (r#"{"sub":"a","iat":1699999990}"#, bad("exp", "is missing (auth.max_token_lifetime)")),
    ] {
        assert_eq!(identify(&auth, &token(claims)).map(|_| ()), result, "{claims}");
    }
}

#[test]
fn signed_tokens_are_accepted() {
    let auth = auth(vec![rs256(Some("r1")), secret(Some("h1"), OTHER_SECRET), secret(None, SECRET)]);
    let grant = Grant {
        sub: "alice".to_owned(),
        issued: Some(NOW),
        expires: Some(NOW + std::time::Duration::from_millis(1500)),
        channels: [("chat.*".to_owned(), vec![Permission::Publish, Permission::Subscribe])].into(),
        join: vec!["chat.a".to_owned()],
    };
    for kid in [None, Some("h1")] {
        let token = auth.sign(&grant, kid).expect("a secret");
        let identity = auth.identify(Some(&token), NOW).expect("our own token");
        assert_eq!(identity.user(), Some("alice"));
        assert_eq!(identity.issued(), Some(NOW));
        assert_eq!(identity.joins().collect::<Vec<_>>(), ["chat.a"]);
        assert_eq!(identity.expires(), Some(UnixTime::from_secs(1_700_000_002)));
        assert!(identity.allows(Permission::Publish, "chat.a"));
    }
    assert_eq!(auth.sign(&grant, Some("r1")), Err(SignError::PublicKey("r1".into())));
    assert_eq!(auth.sign(&grant, Some("x")), Err(SignError::UnknownKey("x".into())));
    let without =
        Auth::new(auth.keys[..2].to_vec(), ApiKeys::default(), Origins::default(), Hosts::default());
    let error = without.sign(&grant, None).expect_err("no secret").to_string();
    assert_eq!(error, "auth.secret is not set; use --kid with one of: h1");
    let error = Auth::default().sign(&grant, None).expect_err("no secret").to_string();
    assert_eq!(error, "auth.secret is not set");
}

#[test]
fn invalid_keys_are_rejected() {
    assert_eq!(Key::from_secret(None, &SECRET[1..]).map(|_| ()), Err(BadKey::ShortSecret));
    let private = b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAAA\n-----END PRIVATE KEY-----\n";
    for (algorithm, pem, error) in [
        (Algorithm::Hs256, RS256_PEM, BadKey::PublicKeyGiven),
        (Algorithm::Rs256, ES256_PEM, BadKey::NotRsa),
        (Algorithm::Rs256, &RS256_PEM[..300], BadKey::NotRsa),
        (Algorithm::Rs256, private, BadKey::NotRsa),
        (Algorithm::Rs256, b"", BadKey::NotRsa),
        (Algorithm::Es256, RS256_PEM, BadKey::NotP256),
        (Algorithm::Es256, P384_PEM, BadKey::NotP256),
        (Algorithm::Es256, private, BadKey::NotP256),
        (Algorithm::Es256, b"nonsense", BadKey::NotP256),
    ] {
        assert_eq!(Key::from_pem(None, algorithm, pem).map(|_| ()), Err(error), "{algorithm:?}");
    }
}

#[test]
fn public_keys_are_read_from_other_forms_of_pem() {
    let pkcs1 =
        pem::encode(&pem::Pem::new("RSA PUBLIC KEY", super::keys::rsa_from_pem(RS256_PEM).expect("DER")));
    let with_text = [b"Issuer: example\n", RS256_PEM].concat();
    for pem in [&include_bytes!("test_keys/rs256_certificate.pem")[..], pkcs1.as_bytes(), &with_text] {
        let key = Key::from_pem(None, Algorithm::Rs256, pem).expect("an RSA key");
        assert_eq!(identify(&auth(vec![key]), RS256_ALICE), user("alice"));
        assert_eq!(Key::from_pem(None, Algorithm::Es256, pem).map(drop), Err(BadKey::NotP256));
    }
    let certificate = include_bytes!("test_keys/es256_certificate.pem");
    let key = Key::from_pem(None, Algorithm::Es256, certificate).expect("a P-256 key");
    assert_eq!(identify(&auth(vec![key]), ES256_BOB), user("bob"));
    assert_eq!(Key::from_pem(None, Algorithm::Rs256, certificate).map(drop), Err(BadKey::NotRsa));
}

#[test]
fn a_point_off_the_curve_is_rejected() {
    let pem = String::from_utf8(ES256_PEM.to_vec()).expect("PEM is text");
    let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let mut der = data_encoding::BASE64.decode(base64.as_bytes()).expect("Base64");
    *der.last_mut().expect("a coordinate") ^= 1;
    let base64 = data_encoding::BASE64.encode(&der);
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{base64}\n-----END PUBLIC KEY-----\n");
    let refused = Key::from_pem(None, Algorithm::Es256, pem.as_bytes()).map(drop);
    assert_eq!(refused, Err(BadKey::NotP256));
}
