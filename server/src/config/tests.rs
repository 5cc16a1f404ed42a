use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use encke_core::session::SessionTimeouts;
use encke_timeouts::TimerScheme;

use super::*;

fn with(flags: &[&str]) -> Settings {
    Settings { flags: flags.iter().map(ToString::to_string).collect(), ..Settings::default() }
}

fn error(settings: &Settings) -> String {
    settings.resolve().expect_err("these settings are wrong").to_string()
}

#[test]
fn defaults_match_the_documents() {
    let config = Settings::default().resolve().expect("the defaults are valid");
    let session = SessionTimeouts {
        ping_interval: Duration::from_secs(25),
        pong_timeout: Duration::from_secs(10),
        poll_hold: Duration::from_secs(30),
        poll_gap: Duration::from_secs(10),
        reconnect_window: Duration::from_secs(120),
        idle: None,
        lifetime: Some(Duration::from_secs(24 * 60 * 60)),
    };
    assert_eq!(config.session, session);
    assert_eq!(config.timers.tick, Duration::from_millis(10));
    assert_eq!(config.limits.max_message, 64 * 1024);
    assert_eq!(config.limits.max_connections, usize::MAX, "0 means no limit");
}

#[test]
fn a_stronger_layer_wins() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), "[session]\nping_interval = \"21s\"\npong_timeout = \"11s\"\nidle = \"1h\"")
        .expect("written");
    let mut settings = Settings::from_file(file.path());
    settings.environment = vec![
        ("ENCKE_SESSION__PONG_TIMEOUT".into(), "12s".into()),
        ("ENCKE_SESSION__IDLE".into(), "2h".into()),
        ("ENCKE_LISTEN__BACKLOG".into(), "77".into()),
        ("ENCKE_HOME".into(), "not ours".into()),
    ];
    settings.flags = vec!["session.idle = 3h".into()];
    let config = settings.resolve().expect("valid");
    assert_eq!(config.session.ping_interval, Duration::from_secs(21));
    assert_eq!(config.session.pong_timeout, Duration::from_secs(12));
    assert_eq!(config.session.idle, Some(Duration::from_secs(3 * 3600)));
    assert_eq!(config.backlog, 77);
}

#[test]
fn errors_name_the_key_and_where_it_was_set() {
    let table: &[(&[&str], &str)] = &[
        (&["session.pingg=1s"], "unknown key `session.pingg` (set by --set session.pingg)"),
        (
            &["session.reconect_window=1s"],
            "(set by --set session.reconect_window); did you mean `session.reconnect_window`?",
        ),
        (
            &["sesion.ping_interval=1s"],
            "(set by --set sesion.ping_interval); did you mean `session.ping_interval`?",
        ),
        (&["nonsense"], "--set nonsense: expected KEY=VALUE"),
        (
            &["session.ping_interval=soon"],
            "`session.ping_interval` (set by --set session.ping_interval): invalid value: string \"soon\", \
             expected a duration such as \"25s\"",
        ),
        (
            &["limits.max_message=1"],
            "`limits.max_message` (set by --set limits.max_message): must be at least 1KiB",
        ),
        (&["timers.workers=0"], "must be from 1 to 256"),
        (&["timers.workers=many"], "`timers.workers`"),
        (
            &["engine.share_sessions=true"],
            "(set by --set engine.share_sessions): needs engine.kind = \"redis\"",
        ),
        (
            &[
                "engine.kind=redis",
                "engine.url=redis://127.0.0.1",
                "engine.share_sessions=true",
                "shutdown.snapshot=/tmp/snapshot",
            ],
            "cannot be combined with shutdown.snapshot",
        ),
        (&["shutdown.snapshot_max_age=0s"], "must be longer than 0: no snapshot would be read"),
        (&["timers.scheme=sundial"], "`timers.scheme` (set by --set timers.scheme): "),
        (&["timers.tick=0s"], "must be from 1ms to 1s"),
        (
            &["session.pong_timeout=26s"],
            "is 26s, but must not be longer than session.ping_interval, which is 25s (set by the default): set both",
        ),
        (
            &["session.ping_interval=5s"],
            "`session.pong_timeout` (set by the default): is 10s, but must not be longer than session.ping_interval, \
             which is 5s (set by --set session.ping_interval): set both",
        ),
        (&["session.close_timeout=15ms"], "must be at least two ticks"),
        (
            &["session.poll_hold=15ms"],
            "`session.poll_hold` (set by --set session.poll_hold): must be at least two ticks",
        ),
        (&["session.poll_gap=15ms"], "must be at least two ticks"),
        (
            &["session.poll_gap=120s"],
            "`session.poll_gap` (set by --set session.poll_gap): must be shorter than session.reconnect_window",
        ),
        (
            &["session.offline_after=15ms"],
            "`session.offline_after` (set by --set session.offline_after): must be at least two ticks (timers.tick)",
        ),
        (
            &["session.offline_after=121s"],
            "`session.offline_after` (set by --set session.offline_after): is 2m 1s, but must not be longer than \
             session.reconnect_window, which is 2m (set by the default)",
        ),
        (&["parking.after=61s"], "must be at most 1m, or off"),
        (&["timers.ping_slack=25s"], "must be shorter than session.ping_interval"),
        (&["timers.stall_threshold=39ms"], "must be at least four ticks"),
        (&["timers.watchdog=500ms"], "must be longer than timers.stall_threshold"),
        (&["listen.public=0.0.0.0:8000"], "refusing to listen beyond loopback"),
        (&["listen.admin=[::]:8001"], "refusing to listen beyond loopback"),
        (&["listen.admin=127.0.0.1:8000"], "the same address as listen.public"),
        (
            &["listen.public=localhost:8300"],
            "`listen.public` (set by --set listen.public): \"localhost:8300\" is not an IP address and a port, such as \
             \"127.0.0.1:8000\"",
        ),
        (
            &["listen.public_url=wss://ws.example/ws"],
            "`listen.public_url` (set by --set listen.public_url): must have no path",
        ),
        (&["listen.public_url=ws.example"], "`listen.public_url`"),
        (&["listen.public_url=wss://user@ws.example"], "must not contain a user name"),
        (&["session.max_unacked=15"], "must be from 16 to 65536"),
        (&["channel.history_bytes=63KiB"], "must not be less than limits.max_message"),
        (&["channel.history_total_bytes=1023KiB"], "must not be less than channel.history_bytes"),
        (&["channel.name_bytes=0"], "must be from 1 to 4096"),
        (&["channel.history_age=19ms"], "must be at least two ticks"),
        (
            &["listen.forwarded=both"],
            "`listen.forwarded` (set by --set listen.forwarded): unknown variant `both`",
        ),
        (
            &["listen.forwarded=forwarded"],
            "`listen.forwarded` (set by --set listen.forwarded): needs listen.trusted_proxies",
        ),
        (
            &["listen.proxy_protocol=true"],
            "`listen.proxy_protocol` (set by --set listen.proxy_protocol): needs listen.trusted_proxies",
        ),
        (&["listen.trusted_proxies=[\"10.0.0.1\"]"], "needs listen.forwarded or listen.proxy_protocol"),
        (&["listen.trusted_proxies=[\"10.0.0.1\", \"nginx\"]"], "`listen.trusted_proxies[1]`"),
        (&["log.level=a=b=c"], "`log.level`"),
        (&["log.level=verbose"], "`verbose` is not error, warn, info"),
        (&["log.level=info,hyper"], "`hyper` is not"),
        (&["log.level=info,[span]=debug"], "`[span]=debug` is not"),
    ];
    for (flags, message) in table {
        let error = error(&with(flags));
        assert!(error.contains(message), "{flags:?}: {error}");
    }
}

#[test]
fn all_errors_are_reported_but_not_their_consequences() {
    let public = "listen.public=0.0.0.0:8000";
    for (flags, keys) in [
        (
            &["sesion.idle=1h", "session.idle=5", "timers.workers=0", "nonsense", "session.pong_timeout=26s"]
                [..],
            &["sesion.idle", "nonsense", "session.idle", "timers.workers", "session.pong_timeout"][..],
        ),
        (
            &["session.ping_interval=5", "session.max_unacked=1", "session.pong_timeout=26s"],
            &["session.ping_interval", "session.max_unacked"],
        ),
        (
            &["auth.secret=short", "auth.origins=['a','b']", public],
            &["auth.secret", "auth.origins[0]", "auth.origins[1]"],
        ),
        (&["auth.keys=[{kid='a'}]", "auth.secret=short", public], &["auth.keys", "auth.secret"]),
        (&["auth.api_keys=hunter2", "listen.admin=0.0.0.0:1"], &["auth.api_keys"]),
        (
            &["engine.kind=redis", "engine.prefix={}", "timers.tick=1h"],
            &["timers.tick", "engine.prefix", "engine.url"],
        ),
        (
            &["channel.name_bytes=3", "namespace=[{prefix='abcd'},{prefix=''}]"],
            &["namespace[0]", "namespace[1]"],
        ),
        (
            &["tls.key=/k", "backend.timeout=1ms", "trace.sample=2.0"],
            &["tls.certificate", "backend.timeout", "trace.sample"],
        ),
    ] {
        let errors = with(flags).resolve().expect_err("these settings are wrong").to_string();
        let errors: Vec<_> = errors.lines().collect();
        for key in keys {
            assert!(errors.iter().any(|error| error.contains(key)), "{key}: {errors:#?}");
        }
        let extra = errors.iter().find(|error| !keys.iter().any(|key| error.contains(key)));
        assert_eq!(extra, None, "{flags:?}");
    }
}

#[test]
fn snapshot_needs_a_directory() {
    let folder = tempfile::tempdir().expect("a directory");
    let in_folder = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(in_folder("file"), "").expect("written");
    for (path, problem) in [
        (in_folder("snapshot"), None),
        ("snapshot".to_owned(), None),
        (in_folder("missing/snapshot"), Some("the directory ")),
        (in_folder("file/snapshot"), Some("is not a directory")),
        (in_folder("."), Some("is a directory: expected the path of a file")),
    ] {
        let error =
            with(&[&format!("shutdown.snapshot={path}")]).resolve().err().map(|error| error.to_string());
        let is_expected = match (&error, problem) {
            (Some(error), Some(problem)) => error.contains("`shutdown.snapshot`") && error.contains(problem),
            (error, problem) => error.is_none() && problem.is_none(),
        };
        assert!(is_expected, "{path}: {error:?}");
    }
}

#[test]
fn unset_poll_gap_fits_the_reconnect_window() {
    for (window, gap_ms) in [("120s", 10_000), ("20s", 10_000), ("19s", 9_500), ("300ms", 150), ("30ms", 20)]
    {
        let config = with(&[&format!("session.reconnect_window={window}")]).resolve().expect("valid");
        assert_eq!(config.session.poll_gap, Duration::from_millis(gap_ms), "{window}");
    }
}

#[test]
#[cfg(not(feature = "schemes"))]
fn a_build_with_one_scheme_says_so() {
    let config = with(&["timers.scheme=hierarchical"]).resolve().expect("valid");
    assert_eq!(config.timers.scheme, TimerScheme::Hierarchical);
    assert_eq!(
        error(&with(&["timers.scheme=lawn"])),
        "`timers.scheme` (set by --set timers.scheme): `lawn`: this build has only `hierarchical`"
    );
}

#[test]
#[cfg(feature = "schemes")]
fn every_scheme_has_a_name() {
    let error = error(&with(&["timers.scheme=sundial"]));
    assert!(error.contains("unknown variant `sundial`, expected one of `hierarchical`, `hier"), "{error}");
    for scheme in TimerScheme::ALL {
        assert!(error.contains(&format!("`{scheme}`")), "{scheme}: {error}");
        let config = with(&[&format!("timers.scheme={scheme}")]).resolve().expect("valid");
        assert_eq!(config.timers.scheme, scheme);
        let entries =
            default_file().lines().filter(|line| line.starts_with(&format!("#   {scheme} "))).count();
        assert_eq!(entries, 1, "{scheme} is explained in the default file");
    }
    let names = error.split_once("expected one of").expect("the names").1.matches('`').count() / 2;
    assert_eq!(names, TimerScheme::ALL.len());
}

#[test]
#[cfg(feature = "schemes")]
fn late_schemes_cause_warnings() {
    for scheme in TimerScheme::ALL {
        let warnings =
            with(&[&format!("timers.scheme={scheme}")]).resolve().expect("valid").warnings(1 << 20);
        let warns = warnings.iter().any(|warning| warning.contains(&format!("timers.scheme = {scheme}")));
        assert_eq!(
            warns,
            matches!(scheme, TimerScheme::Coarse | TimerScheme::OneMigration),
            "{scheme}: {warnings:?}"
        );
    }
    let coarse = with(&["timers.scheme=coarse", "session.lifetime=off", "channel.history_age=off"]);
    let warnings = coarse.resolve().expect("valid").warnings(1 << 20);
    assert_eq!(
        warnings,
        [
            "with timers.scheme = coarse, some timeouts may be late by more than half of session.close_timeout (2s): \
          session.reconnect_window up to 5s 110ms"
        ]
    );
    let even = with(&[
        "timers.scheme=coarse",
        "session.lifetime=off",
        "channel.history_age=off",
        "session.reconnect_window=25s",
    ]);
    assert_eq!(even.resolve().expect("valid").warnings(1 << 20), Vec::<String>::new());
}

#[test]
fn errors_in_files_and_the_environment_are_located() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let path = file.path().display().to_string();
    for (text, message) in [
        (
            "[sessions]\nidle = \"1h\"",
            format!("unknown key `sessions` (set by {path}); did you mean `session`?"),
        ),
        ("idle = \"1h\"", format!("unknown key `idle` (set by {path})")),
        ("[session]\nidle = 5", ": expected a duration such as \"25s\", or \"off\"".into()),
        ("[limits]\nmax_sessions = \"5\"", ": expected an integer of at least 0".into()),
        ("[limits]\nmax_sessions = -1", "integer `-1`, expected an integer of at least 0".into()),
        ("[session\n", format!("{path}: TOML parse error at line 1")),
    ] {
        std::fs::write(file.path(), text).expect("written");
        let error = error(&Settings::from_file(file.path()));
        assert!(error.contains(&message), "{text}: {error}");
    }
    let error_of_nowhere = error(&Settings::from_file(Path::new("nowhere.toml")));
    assert!(error_of_nowhere.starts_with("cannot read nowhere.toml"), "{error_of_nowhere}");
    let environment = vec![("ENCKE_SESSION__SPEED".into(), "1s".into())];
    let error = error(&Settings { environment, ..Settings::default() });
    assert_eq!(error, "unknown key `session.speed` (set by ENCKE_SESSION__SPEED)");
}

#[test]
fn renamed_keys_are_errors_that_name_the_new_key() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let path = file.path().display().to_string();
    for (section, name, variable, new) in [
        ("rest", "after", "ENCKE_REST__AFTER", "parking.after"),
        ("auth", "longest_token", "ENCKE_AUTH__LONGEST_TOKEN", "auth.max_token_lifetime"),
    ] {
        let old = format!("{section}.{name}");
        let expected = |origin: &str| format!("`{old}` (set by {origin}) was renamed: use `{new}`");
        for text in [format!("[{section}]\n{name} = \"1h\""), format!("{old} = \"1h\"")] {
            std::fs::write(file.path(), &text).expect("written");
            assert_eq!(error(&Settings::from_file(file.path())), expected(&path), "{text}");
        }
        let environment = vec![(variable.to_owned(), "1h".to_owned())];
        assert_eq!(error(&Settings { environment, ..Settings::default() }), expected(variable));
        let error = error(&with(&[&format!("{old}=1h")]));
        assert!(error.starts_with(&format!("`{old}` (set by --set {old}")), "{error}");
        assert!(error.ends_with(&format!(") was renamed: use `{new}`")), "{error}");
    }
    for text in ["[rest]", "[rest]\naftr = \"1s\""] {
        std::fs::write(file.path(), text).expect("written");
        let expected = format!("`rest` (set by {path}) was renamed: use `parking`");
        assert_eq!(error(&Settings::from_file(file.path())), expected, "{text}");
    }
}

#[test]
fn passing_on_headers_or_cookies_needs_the_hook_that_receives_them() {
    let hook = |name: &str| format!("backend.{name}=http://127.0.0.1:1/");
    for key in ["headers", "cookies"] {
        let passed_on = format!("backend.{key}=['a']");
        let error =
            with(&[&passed_on, &hook("subscribe")]).resolve().map(drop).map_err(|error| error.to_string());
        let error = error.expect_err("no hook receives them");
        assert!(error.contains(&format!("`backend.{key}`")) && error.contains("backend.connect"), "{error}");
        with(&[&passed_on, &hook("connect")]).resolve().expect("a hook receives them");
    }
}

#[test]
fn variable_without_a_section_or_with_a_single_underscore_is_an_error() {
    let set = |name: &str| {
        let environment = vec![(name.to_owned(), "1s".to_owned())];
        Settings { environment, ..Settings::default() }.resolve().map(drop).map_err(|error| error.to_string())
    };
    let error = set("ENCKE_SESSION_PING_INTERVAL").expect_err("a mistake");
    let meant = "ENCKE_SESSION_PING_INTERVAL is not a setting; did you mean ENCKE_SESSION__PING_INTERVAL (two underscores)?";
    assert_eq!(error, meant);
    for (name, meant) in [
        ("ENCKE_API_KEYS", "ENCKE_AUTH__API_KEYS"),
        ("ENCKE_ADMIN", "ENCKE_LISTEN__ADMIN or ENCKE_TLS__ADMIN"),
        ("ENCKE_SHUTDOWN", "ENCKE_SHUTDOWN__DRAIN"),
    ] {
        let expected = format!("{name} is not a setting; did you mean {meant} (two underscores)?");
        assert_eq!(set(name), Err(expected));
    }
    // Kubernetes sets these for a service with the name `encke`.
    for name in ["ENCKE_PORT", "ENCKE_SERVICE_HOST", "ENCKE_SERVICE_PORT_CLIENTS", "ENCKE_PORT_8000_TCP_ADDR"]
    {
        assert_eq!(set(name), Ok(()), "{name}");
    }
    assert_eq!(set("ENCKE_HOME"), Ok(()));
    assert_eq!(set("ENCKE_SESSION_SPEED"), Ok(()), "there is no such key that could be meant");
}

const SECRET: &str = "auth.secret=0123456789abcdef0123456789abcdef";
const API_KEY: &str = "auth.api_keys=['0123456789abcdef']";

#[test]
fn listening_beyond_loopback_needs_authentication_or_insecure() {
    let (public, admin) = ("listen.public=0.0.0.0:8000", "listen.admin=0.0.0.0:8001");
    let keys = "auth.keys=[{kid='a',algorithm='HS256',secret='0123456789abcdef0123456789abcdef'}]";
    for (flags, refused) in [
        (&[public][..], Some("`listen.public`")),
        (&[public, API_KEY], Some("`listen.public`")),
        (&[public, SECRET], None),
        (&[public, keys], None),
        (&[admin], Some("`listen.admin`")),
        (&[admin, SECRET], Some("`listen.admin`")),
        (&[admin, API_KEY], None),
        (&[public, admin, SECRET], Some("`listen.admin`")),
        (&[public, admin, SECRET, API_KEY], None),
    ] {
        let mut settings = with(flags);
        let error = settings.resolve().err().map(|error| error.to_string());
        assert_eq!(error.is_some(), refused.is_some(), "{flags:?}: {error:?}");
        assert!(error.unwrap_or_default().contains(refused.unwrap_or_default()), "{flags:?}");
        settings.insecure = true;
        assert!(settings.resolve().is_ok(), "{flags:?}");
    }
}

#[test]
fn lists_are_written_as_toml_or_json() {
    let keys = r#"auth.keys=[{"kid":"a","algorithm":"HS256","secret":"0123456789abcdef0123456789abcdef"}]"#;
    let config = with(&[keys]).resolve().expect("JSON");
    assert!(config.auth.needs_token());
    let environment =
        vec![("ENCKE_AUTH__ORIGINS".into(), r#"["https://a.example", 'http://b.example:81']"#.into())];
    let config = Settings { environment, ..Settings::default() }.resolve().expect("TOML");
    assert!(config.auth.origins.allows(Some("http://b.example:81"), Some("chat.example"), false));
    assert!(!config.auth.origins.allows(Some("http://b.example"), Some("chat.example"), false));
    assert!(with(&["auth.origins=[]"]).resolve().is_ok());
}

/// All secrets in this test begin with `hunter`, so that a leaked secret is detected.
#[test]
fn errors_about_authentication_name_the_key_and_show_no_secret() {
    let key = |fields: &str| {
        format!(
            "auth.keys=[{{kid='a',algorithm='HS256',secret='hunter-0123456789-0123456789-0123456789'}},{{{fields}}}]"
        )
    };
    let table = [
        (
            "auth.secret=hunter2".into(),
            "`auth.secret` (set by --set auth.secret): must be at least 32 bytes long",
        ),
        ("auth.secrt = hunter2".into(), "unknown key `auth.secrt` (set by --set auth.secrt)"),
        (" AUTH.secret=hunter2".into(), "unknown key `AUTH.secret` (set by --set AUTH.secret)"),
        (
            "auth.api_keys=hunter2".into(),
            "`auth.api_keys` (set by --set auth.api_keys): expected a list such as",
        ),
        (
            "auth.api_keys=['hunter2']".into(),
            "`auth.api_keys[0]` (set by --set auth.api_keys): must be at least 16",
        ),
        (
            "auth.api_keys=['0123456789abcdef', 2]".into(),
            "`auth.api_keys[1]` (set by --set auth.api_keys): expected a string",
        ),
        (
            "auth.api_keys=[{name='ci', key='hunter2-0123456789', scopes=[]}]".into(),
            "`auth.api_keys[0].scopes` (set by --set auth.api_keys): must not be empty",
        ),
        (
            "auth.api_keys=[{name='ci', key='hunter2', scopes=['read']}]".into(),
            "`auth.api_keys[0].key` (set by --set auth.api_keys): must be at least 16",
        ),
        (
            "auth.api_keys=[{name='', key='hunter2-0123456789', scopes=['read']}]".into(),
            "`auth.api_keys[0].name` (set by --set auth.api_keys): must not be empty",
        ),
        (
            "auth.api_keys=[{name='1', key='hunter2-0123456789', scopes=['all']}, 'hunter2-0123456789']"
                .into(),
            "`auth.api_keys[1].name` (set by --set auth.api_keys): is the name of another",
        ),
        (
            "auth.api_keys=[{name='ro', key='hunter2-0123456789', scopes=['read']}, 'hunter2-0123456789']"
                .into(),
            "`auth.api_keys[1]` (set by --set auth.api_keys): is the same key as that of \"ro\"",
        ),
        (
            "auth.max_token_lifetime=999ms".into(),
            "`auth.max_token_lifetime` (set by --set auth.max_token_lifetime): must be at least 1s, or off",
        ),
        (
            "auth.jwks=ftp://issuer.example/keys".into(),
            "`auth.jwks` (set by --set auth.jwks): must begin with http:// or https://",
        ),
        (
            "auth.jwks=/nowhere.json".into(),
            "`auth.jwks` (set by --set auth.jwks): /nowhere.json: cannot be read: No such file",
        ),
        (
            "auth.jwks_refresh=9s".into(),
            "`auth.jwks_refresh` (set by --set auth.jwks_refresh): must be at least 10s",
        ),
        ("auth.jwks_ca=/ca.pem".into(), "`auth.jwks_ca` (set by --set auth.jwks_ca): needs auth.jwks"),
        (
            "auth.api_keys=[{name='ci', key='hunter2-0123456789', scopes=['write']}]".into(),
            "`auth.api_keys[0].scopes[0]` (set by --set auth.api_keys): unknown variant",
        ),
        (
            "auth.api_keys=[{name='ci', key='hunter2-0123456789', scope='read'}]".into(),
            "`auth.api_keys[0].scope` (set by --set auth.api_keys): unknown field",
        ),
        (
            "auth.origins=['*','a.example']".into(),
            "`auth.origins[1]` (set by --set auth.origins): must be an origin",
        ),
        (key("algorithm='HS256',secret='hunter'"), "missing field `kid`"),
        (
            key("kid='b',algorithm='none'"),
            "`auth.keys[1].algorithm` (set by --set auth.keys): unknown variant `none`, expected one of `HS256`, `RS256`, `ES256`",
        ),
        (
            key("kid='b',algorithm='HS256',secret=7"),
            "`auth.keys[1].secret` (set by --set auth.keys): expected a string",
        ),
        (
            key("kid='b',algorithm='HS256',secret='hunter'"),
            "`auth.keys[1].secret` (set by --set auth.keys): must be at least 32",
        ),
        (
            key("kid='b',algorithm='HS256'"),
            "`auth.keys[1].algorithm` (set by --set auth.keys): HS256 takes `secret`",
        ),
        (
            key("kid='b',algorithm='RS256',secret='hunter'"),
            "`auth.keys[1].algorithm` (set by --set auth.keys): RS256 and ES256 take",
        ),
        (
            key("kid='b',algorithm='ES256',public_key_file='/nowhere.pem'"),
            "`auth.keys[1].public_key_file` (set by --set auth.keys): /nowhere.pem: cannot be read: No such file",
        ),
        (key("kid='b',algorithm='ES256',public_key_file='/dev/null'"), "/dev/null: not a P-256 public key"),
        (
            key("kid='a',algorithm='HS256',secret='hunter'"),
            "`auth.keys[1].kid` (set by --set auth.keys): is the `kid` of another key",
        ),
        (
            key("kid='',algorithm='HS256',secret='hunter'"),
            "`auth.keys[1].kid` (set by --set auth.keys): must not be empty",
        ),
        (key("kid='b',algorithm='HS256',secrt='hunter'"), "unknown field `secrt`"),
    ];
    for (flag, message) in table {
        let error = error(&with(&[&flag]));
        assert!(error.contains(message), "{flag}: {error}");
        assert!(!error.contains("hunter"), "{flag}: {error}");
    }
}

#[test]
fn redis_engine_settings() {
    let redis = |more: &[&str]| with(&[&["engine.kind=redis", "engine.url=redis://10.0.0.1"], more].concat());
    let EngineConfig::Redis(settings) = redis(&[]).resolve().expect("valid").engine else {
        panic!("no Redis");
    };
    let RedisLocation::Address(address) = &settings.location else { panic!("Sentinels") };
    assert_eq!(*address, RedisAddress::Tcp("10.0.0.1".into(), 6379));
    assert!(matches!(Settings::default().resolve().expect("valid").engine, EngineConfig::Memory));
    for (settings, message) in [
        (with(&["engine.kind=paper"]), "`engine.kind` (set by --set engine.kind)"),
        (
            with(&["engine.kind=redis"]),
            "`engine.url` (set by the default): must be redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH",
        ),
        (redis(&["engine.url=http://x"]), "`engine.url` (set by --set engine.url): must be redis://"),
        (
            redis(&["engine.url=redis://u:hunter2@x"]),
            "user and password belong in engine.user and engine.password",
        ),
        (redis(&["engine.user=me"]), "`engine.user` (set by --set engine.user): needs engine.password"),
        (redis(&["engine.prefix={a}"]), "`engine.prefix` (set by --set engine.prefix): must have at most 64"),
        (redis(&["channel.history_messages=0"]), "`channel.history_messages`"),
        (
            with(&["engine.url=redis://x"]),
            "`engine.url` (set by --set engine.url): needs engine.kind = \"redis\"",
        ),
        (with(&["engine.password=hunter2"]), "`engine.password` (set by --set engine.password): needs"),
        (redis(&["engine.database=hunter2"]), "`engine.database`"),
        (
            redis(&["engine.ca=/x"]),
            "`engine.ca` (set by --set engine.ca): needs an engine.url that begins with rediss://",
        ),
        (with(&["engine.key=/x"]), "`engine.key` (set by --set engine.key): needs engine.kind"),
        (
            redis(&["engine.url=rediss://x", "engine.ca=/no/such"]),
            "`engine.ca` (set by --set engine.ca): /no/such: cannot be read",
        ),
        (
            redis(&["engine.url=rediss://x", "engine.key=/x"]),
            "`engine.certificate` (set by the default): must be set when engine.key is",
        ),
        (
            redis(&["engine.url=rediss://x", "engine.certificate=/x"]),
            "`engine.key` (set by the default): must be set when engine.certificate is",
        ),
        (
            redis(&["engine.url=rediss://x", "engine.ca=Cargo.toml"]),
            "`engine.ca` (set by --set engine.ca): Cargo.toml: contains no PEM certificate",
        ),
    ] {
        let error = error(&settings);
        assert!(error.contains(message) && !error.contains("hunter"), "{error}");
    }
}

#[test]
fn sentinel_settings() {
    let sentinels = |url: &str, more: &[&str]| {
        let url = format!("engine.url={url}");
        with(&[&["engine.kind=redis", "engine.master=main", &*url], more].concat())
    };
    let settings = sentinels("redis://a, redis://b:7000", &[]);
    let EngineConfig::Redis(settings) = settings.resolve().expect("valid").engine else { panic!("no Redis") };
    assert_eq!(settings.location.to_string(), "main of redis://a:26379,redis://b:7000");
    let many = vec!["redis://a"; 17].join(",");
    for (settings, message) in [
        (
            with(&["engine.kind=redis", "engine.url=redis://a,redis://b"]),
            "`engine.master` (set by the default): must be set when engine.url names several Sentinels",
        ),
        (
            with(&["engine.kind=redis", "engine.url=redis://a", "engine.sentinel_password=hunter2"]),
            "`engine.sentinel_password` (set by --set engine.sentinel_password): needs engine.master",
        ),
        (with(&["engine.master=main"]), "`engine.master` (set by --set engine.master): needs engine.kind"),
        (sentinels("redis://a,", &[]), "`engine.url` (set by --set engine.url): must be redis://"),
        (sentinels("redis://a,rediss://b", &[]), "must use TLS for all Sentinels or for none"),
        (sentinels(&many, &[]), "must name at most 16 Sentinels"),
        (sentinels("redis://a", &["engine.master=a b"]), "must be an ASCII name"),
        (sentinels("redis://a", &["engine.sentinel_user=me"]), "needs engine.sentinel_password"),
    ] {
        let error = error(&settings);
        assert!(error.contains(message) && !error.contains("hunter"), "{error}");
    }
}

#[test]
fn errors_show_no_secrets_from_files() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    for (text, message) in [
        ("[auth]\nsecret = hunter2\n", "TOML parse error at line 2, column 10"),
        ("[auth]\nsecret = \"hunter2", "TOML parse error at line 2"),
        ("[auth]\napi_keys = \"hunter2\"", "expected a list"),
        ("[auth]\nsecret = [\"hunter2\"]", "expected a string"),
    ] {
        std::fs::write(file.path(), text).expect("written");
        let error = error(&Settings::from_file(file.path()));
        assert!(error.contains(message) && !error.contains("hunter"), "{text}: {error}");
    }
}

#[test]
fn namespaces_override_channel_settings() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let text = "[channel]\nhistory_messages = 7\nhistory_age = \"9m\"\n\
                [[namespace]]\nprefix = \"a.\"\n\
                [[namespace]]\nprefix = \"b.\"\nhistory_messages = 0\nhistory_bytes = \"2MiB\"\nhistory_age = \"off\"\n\
                publish = false\npresence = false\nat_ms = true\njoin_leave = true\n";
    std::fs::write(file.path(), text).expect("written");
    let [plain, own] = &*Settings::from_file(file.path()).resolve().expect("valid").channel.namespaces else {
        panic!("two")
    };
    let said = |namespace: &Namespace| {
        let ChannelRules { log, publish, presence, at_ms, join_leave } = &namespace.rules;
        (log.messages, log.bytes, log.age, [publish, presence, at_ms, join_leave].map(|flag| *flag))
    };
    assert_eq!((&*plain.prefix, &*own.prefix), ("a.", "b."));
    assert_eq!(said(plain), (7, 1 << 20, Some(Duration::from_secs(540)), [true, true, false, false]));
    assert_eq!(said(own), (usize::MAX, 2 << 20, None, [false, false, true, true]));
    let flag = r#"namespace=[{prefix="x", publish=false}]"#;
    let config = with(&[flag]).resolve().expect("valid");
    assert!(!config.channel.namespaces[0].rules.publish && config.channel.namespaces[0].rules.presence);
    assert!(with(&[]).resolve().expect("valid").channel.namespaces.is_empty());
}

#[test]
fn invalid_namespaces_are_refused() {
    let redis = &["engine.kind=redis", "engine.url=redis://a"][..];
    let many = (0..65).map(|number| format!("{{prefix='{number}'}}")).collect::<Vec<_>>().join(",");
    for (namespaces, others, message) in [
        (
            "{prefix='a'},{prefix='b'},{prefix='a'}",
            &[][..],
            "`namespace[2].prefix` … \"a\" is the `prefix` of another",
        ),
        ("{prefix=''}", &[], "`namespace[0].prefix` … must not be empty"),
        ("{prefix='desk-*'}", &[], "`namespace[0].prefix` … must not contain `*`"),
        ("{prefix='$user:'}", &[], "`namespace[0].prefix` … names that begin with `$` are reserved"),
        ("{prefix='a,b'}", &[], "`namespace[0].prefix` … must not contain control characters or commas"),
        ("{prefix='abcd'}", &["channel.name_bytes=3"], "`namespace[0].prefix` … must not be longer"),
        ("{publish=true}", &[], "missing field `prefix`"),
        ("{prefix='a'},{prefix='b',join=true}", &[], "`namespace[1].join` … unknown field `join`"),
        ("{prefix='a',history_age='soon'}", &[], "`namespace[0].history_age`"),
        ("{prefix='a',history_age='1ms'}", &[], "`namespace[0].history_age` … must be at least two ticks"),
        (
            "{prefix='a',history_bytes='1KiB'}",
            &[],
            "`namespace[0].history_bytes` … must not be less than limits",
        ),
        ("{prefix='a',history_bytes='1GiB'}", &[], "`namespace[0].history_bytes` … must not be more than"),
        ("{prefix='a',history_messages=0}", redis, "`namespace[0].history_messages` … must not be 0"),
        ("7", &[], "`namespace[0]`"),
        (&*many, &[], "`namespace` … there may be at most 64"),
    ] {
        let flag = format!("namespace=[{namespaces}]");
        let flags: Vec<&str> = others.iter().copied().chain([&*flag]).collect();
        let error = error(&with(&flags));
        assert!(message.split(" … ").all(|part| error.contains(part)), "{flags:?}: {error}");
    }
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    for (text, message) in [
        ("[namespace]\nprefix = \"a\"", "is a list of tables: [[namespace]]"),
        ("namespace = 7", "`namespace`"),
        ("[[channel]]\nname_bytes = 7", "is a section: [channel]"),
        ("[[namespaces]]\nprefix = \"a\"", "namespaces"),
    ] {
        std::fs::write(file.path(), text).expect("written");
        let error = error(&Settings::from_file(file.path()));
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[test]
fn certificate_and_key_must_be_set_together() {
    for (flags, message) in [
        (
            &["tls.certificate=/nowhere.pem"][..],
            "`tls.key` (set by the default): must be set when tls.certificate is",
        ),
        (&["tls.key=/nowhere.pem"], "`tls.certificate` (set by the default): must be set when tls.key is"),
        (
            &["tls.certificate=/nowhere.pem", "tls.key=/nowhere.pem"],
            "`tls.certificate` (set by --set tls.certificate): /nowhere.pem: cannot be read: No such file",
        ),
        (&["tls.certificate=/dev/null", "tls.key=/dev/null"], "/dev/null: contains no PEM certificate"),
    ] {
        let error = error(&with(flags));
        assert!(error.contains(message), "{flags:?}: {error}");
    }
}

#[test]
fn questionable_settings_cause_warnings() {
    let calm = with(&["limits.max_connections=1000"]).resolve().expect("valid");
    assert_eq!(calm.warnings(1100), Vec::<String>::new());
    let calm = with(&["session.poll_hold=55s", "session.ping_interval=60s"]).resolve().expect("valid");
    assert_eq!(calm.warnings(256), Vec::<String>::new());
    assert!(calm.warnings(128)[0].contains("leaves 36 connections for clients"), "{:?}", calm.warnings(128));
    let flags = ["session.ping_interval=61s", "session.poll_hold=56s", "limits.max_connections=1000"];
    let warnings = with(&flags).resolve().expect("valid").warnings(1099);
    assert!(warnings[0].starts_with("session.ping_interval is 1m 1s"), "{warnings:?}");
    assert!(warnings[1].starts_with("session.poll_hold is 56s"), "{warnings:?}");
    assert!(
        warnings[2].contains("1099 descriptors, which leaves 999 connections")
            && warnings[2].contains("too few for limits.max_connections = 1000"),
        "{warnings:?}"
    );
    let folder = tempfile::tempdir().expect("a directory");
    let setting = format!("shutdown.snapshot={}", folder.path().join("snapshot").display());
    for (mode, is_safe) in [(0o755, true), (0o775, false), (0o1777, false)] {
        std::fs::set_permissions(folder.path(), Permissions::from_mode(mode)).expect("the directory is ours");
        let warnings = with(&[&setting]).resolve().expect("valid").warnings(1 << 20);
        assert_eq!(warnings.is_empty(), is_safe, "{mode:o}: {warnings:?}");
    }
}
