use super::*;

fn with(flags: &[&str]) -> Settings {
    Settings { flags: flags.iter().map(ToString::to_string).collect(), ..Settings::default() }
}

fn error(settings: &Settings) -> String {
    settings.resolve().expect_err("these settings are wrong").to_string()
}

#[test]
fn the_defaults_are_those_of_the_state_machine() {
    let config = Settings::default().resolve().expect("the defaults are valid");
    assert_eq!(config.session, SessionTimeouts::default());
    assert_eq!(config.timers.tick, Duration::from_millis(10));
    assert_eq!(config.limits.max_message, 64 * 1024);
    assert_eq!(config.limits.max_connections, usize::MAX, "0 means no limit");
}

#[test]
fn a_stronger_layer_wins() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), "[session]\nping_interval = \"21s\"\npong_timeout = \"11s\"\nidle = \"1h\"")
        .expect("written");
    let mut settings = Settings::of_file(file.path());
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
        (&["session.pingg=1s"], "unknown key `session.pingg` (set by --set session.pingg=1s)"),
        (&["nonsense"], "--set nonsense: expected KEY=VALUE"),
        (
            &["session.ping_interval=soon"],
            "`session.ping_interval` (set by --set session.ping_interval=soon): invalid value: string \"soon\", \
             expected a duration such as \"25s\"",
        ),
        (
            &["limits.max_message=1"],
            "`limits.max_message` (set by --set limits.max_message=1): must be at least 1KiB",
        ),
        (&["timers.workers=0"], "must be from 1 to 256"),
        (&["timers.workers=many"], "`timers.workers`"),
        (&["timers.scheme=sundial"], "unknown variant `sundial`, expected `hierarchical`"),
        (&["timers.tick=0s"], "must be from 1ms to 1s"),
        (&["session.pong_timeout=26s"], "must not be longer than session.ping_interval"),
        (&["session.close_timeout=15ms"], "must be at least two ticks"),
        (&["timers.ping_slack=25s"], "must be shorter than session.ping_interval"),
        (&["timers.stall_threshold=39ms"], "must be at least four ticks"),
        (&["timers.watchdog=500ms"], "must be longer than timers.stall_threshold"),
        (&["listen.public=0.0.0.0:8000"], "refusing to listen beyond loopback"),
        (&["listen.admin=[::]:8001"], "refusing to listen beyond loopback"),
        (&["listen.admin=127.0.0.1:8000"], "the same address as listen.public"),
        (&["listen.public=here"], "`listen.public`"),
        (&["log.level=a=b=c"], "`log.level`"),
    ];
    for (flags, message) in table {
        let error = error(&with(flags));
        assert!(error.contains(message), "{flags:?}: {error}");
    }
}

#[test]
fn what_is_wrong_in_a_file_or_the_environment_is_named() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let path = file.path().display().to_string();
    for (text, message) in [
        ("[sessions]\nidle = \"1h\"", format!("unknown key `sessions` (set by {path})")),
        ("idle = \"1h\"", format!("unknown key `idle` (set by {path})")),
        (
            "[session]\nidle = 5",
            "invalid type: integer `5`, expected a duration such as \"25s\", or \"off\"".into(),
        ),
        ("[session\n", format!("{path}: TOML parse error at line 1")),
    ] {
        std::fs::write(file.path(), text).expect("written");
        let error = error(&Settings::of_file(file.path()));
        assert!(error.contains(&message), "{text}: {error}");
    }
    let error_of_nowhere = error(&Settings::of_file(Path::new("nowhere.toml")));
    assert!(error_of_nowhere.starts_with("cannot read nowhere.toml"), "{error_of_nowhere}");
    let environment = vec![("ENCKE_SESSION__SPEED".into(), "1s".into())];
    let error = error(&Settings { environment, ..Settings::default() });
    assert_eq!(error, "unknown key `session.speed` (set by ENCKE_SESSION__SPEED)");
}

#[test]
fn beyond_loopback_only_on_purpose() {
    let mut settings = with(&["listen.public=0.0.0.0:8000"]);
    settings.insecure = true;
    assert!(settings.resolve().is_ok());
}

#[test]
fn likely_trouble_is_a_warning() {
    let calm = with(&["limits.max_connections=1000"]).resolve().expect("valid");
    assert_eq!(calm.warnings(1064), Vec::<String>::new());
    let config =
        with(&["session.ping_interval=61s", "limits.max_connections=1000"]).resolve().expect("valid");
    let warnings = config.warnings(1063);
    assert!(warnings[0].starts_with("session.ping_interval is 1m 1s"), "{warnings:?}");
    assert!(
        warnings[1].contains("1063 descriptors, too few for limits.max_connections = 1000"),
        "{warnings:?}"
    );
}
