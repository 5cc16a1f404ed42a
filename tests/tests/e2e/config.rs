use std::fs::{self, OpenOptions};
use std::net::TcpListener;
use std::process::{Command, Output};

use encke_tests::server::run_to_end;
use encke_tests::{Launch, binaries};
use tempfile::TempDir;

#[track_caller]
fn assert_refused(output: &Output, code: i32, names: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(output.stdout.is_empty(), "{output:?}");
    for name in names {
        assert!(stderr.contains(name), "{name}: {stderr}");
    }
}

/// Writes a configuration file. Returns its path and the temporary directory that owns it.
fn file(content: impl AsRef<[u8]>) -> (TempDir, String) {
    let directory = tempfile::tempdir().expect("the file can be written");
    let path = directory.path().join("encke.toml");
    fs::write(&path, content).expect("the file can be written");
    let path = path.to_str().expect("the path is text").to_owned();
    (directory, path)
}

#[test]
fn the_default_file_is_valid_and_changes_nothing() {
    let default = run_to_end(&["config", "default"], &[]);
    assert!(default.status.success(), "{default:?}");
    let (_directory, path) = file(&default.stdout);
    let check = run_to_end(&["config", "check", &path], &[]);
    assert!(check.status.success(), "{check:?}");
    assert!(check.stderr.is_empty(), "no warnings: {check:?}");

    let server = Launch::default().argument("--config").argument(&path).start();
    assert_eq!(server.client().hello.object["hello"]["ping_interval_ms"], 25_000);
}

/// To a script, a full disk must not look like empty output.
#[test]
fn output_to_a_full_disk_is_a_failure() {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("Linux has /dev/full");
    let mut child = Command::new(binaries::encke());
    let output = child.args(["config", "default"]).stdout(full).output().expect("the binary can be started");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("encke: standard output: "), "{stderr}");
}

#[test]
fn too_few_descriptors_are_reported() {
    for few in [16, 63] {
        let command = format!("ulimit -n {few}; exec \"$0\"");
        let output = Command::new("sh").args(["-c", &command]).arg(binaries::encke()).output();
        let named = [&*format!("may open {few} descriptors"), "LimitNOFILE"];
        assert_refused(&output.expect("sh is installed"), 2, &named);
    }
}

#[test]
fn unknown_keys_are_named() {
    let (_directory, path) = file("[session]\nping_intervall = \"1s\"\n");
    assert_refused(&run_to_end(&["config", "check", &path], &[]), 2, &["session.ping_intervall", &path]);
    assert_refused(&run_to_end(&["--config", &path], &[]), 2, &["session.ping_intervall", &path]);
    let (_directory, path) = file("[sesion]\nping_interval = \"1s\"\n");
    assert_refused(&run_to_end(&["config", "check", &path], &[]), 2, &["sesion"]);
    assert_refused(&run_to_end(&["--set", "session.nothing=1s"], &[]), 2, &["session.nothing"]);
    assert_refused(&run_to_end(&["--set", "nothing"], &[]), 2, &["nothing"]);
    let environment = [("ENCKE_SESSION__NOTHING", "1s")];
    assert_refused(&run_to_end(&[], &environment), 2, &["session.nothing", "ENCKE_SESSION__NOTHING"]);
}

#[test]
fn contradictions_are_named() {
    for (settings, key) in [
        (&["session.ping_interval=5s", "session.pong_timeout=6s"][..], "session.pong_timeout"),
        (&["session.reconnect_window=15ms"], "session.reconnect_window"),
        (&["session.lifetime=10ms"], "session.lifetime"),
        (&["timers.tick=500ms"], "timers.stall_threshold"),
        (&["timers.tick=0s"], "timers.tick"),
        (&["timers.workers=0"], "timers.workers"),
        (&["timers.ping_slack=25s"], "timers.ping_slack"),
        (&["timers.watchdog=100ms"], "timers.watchdog"),
        (&["timers.scheme=sundial"], "timers.scheme"),
        (&["limits.max_message=10"], "limits.max_message"),
        (&["session.ping_interval=soon"], "session.ping_interval"),
        (&["session.ping_interval=off"], "session.ping_interval"),
        (&["limits.max_sessions=-1"], "limits.max_sessions"),
        (&["listen.public=nowhere"], "listen.public"),
        (&["log.format=xml"], "log.format"),
    ] {
        let arguments: Vec<_> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        assert_refused(&run_to_end(&arguments, &[]), 2, &[key]);
    }
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let check = |content: &str| {
        let (directory, path) = file(content);
        (run_to_end(&["config", "check", &path], &[]), path, directory)
    };
    let (refused, path, _directory) = check(
        "[auth]\nkeys = [{ kid = \"a\", algorithm = \"RS256\", public_key_file = \"/nowhere.pem\" }]\n",
    );
    assert_refused(&refused, 2, &["auth.keys[0].public_key_file", &path, "/nowhere.pem"]);
    let (refused, path, _directory) = check("[tls]\ncertificate = \"/nowhere.pem\"\nkey = \"/other.pem\"\n");
    assert_refused(&refused, 2, &["tls.certificate", &path, "/nowhere.pem"]);
    assert_refused(&run_to_end(&["--config", "/nowhere.toml"], &[]), 2, &["/nowhere.toml"]);
    let (_directory, path) = file("[session\n");
    assert_refused(&run_to_end(&["config", "check", &path], &[]), 2, &[&path, "line 1"]);
}

#[test]
fn address_beyond_loopback_requires_insecure() {
    for key in ["listen.public", "listen.admin"] {
        let setting = format!("{key}=0.0.0.0:0");
        assert_refused(&run_to_end(&["--set", &setting], &[]), 2, &[key, "--insecure"]);
    }
    assert_refused(&run_to_end(&["--listen", "[::]:0"], &[]), 2, &["listen.public", "--insecure"]);
    let (_directory, path) = file("[listen]\npublic = \"0.0.0.0:0\"\n");
    assert_refused(&run_to_end(&["config", "check", &path], &[]), 2, &["listen.public"]);
    let check = run_to_end(&["config", "check", &path, "--insecure"], &[]);
    assert!(check.status.success(), "{check:?}");

    let server = Launch::listening_on("0.0.0.0:0").argument("--insecure").start();
    assert!(server.public.ip().is_unspecified());
}

#[test]
fn address_beyond_loopback_is_accepted_with_authentication() {
    let secret = "auth.secret=0123456789abcdef0123456789abcdef";
    let keys = "auth.api_keys=['0123456789abcdef']";
    let refused = run_to_end(&["--set", "listen.public=0.0.0.0:0", "--set", keys], &[]);
    assert_refused(&refused, 2, &["listen.public", "auth.secret", "--insecure"]);
    let refused = run_to_end(&["--set", "listen.admin=0.0.0.0:0", "--set", secret], &[]);
    assert_refused(&refused, 2, &["listen.admin", "auth.api_keys", "--insecure"]);
    let server = Launch::listening_on("0.0.0.0:0").set(secret).start();
    assert!(server.public.ip().is_unspecified());
}

#[test]
fn lists_come_from_the_environment_and_secrets_are_not_shown() {
    let guarded =
        Launch::default().environment("ENCKE_AUTH__API_KEYS", r#"["hunter2hunter2hunter2"]"#).start();
    assert_eq!(guarded.admin.get("/metrics").status, 401);
    for (name, value) in [
        ("ENCKE_AUTH__SECRET", "hunter2"),
        ("ENCKE_AUTH__API_KEYS", "hunter2"),
        ("ENCKE_AUTH__API_KEYS", "['hunter2']"),
        ("ENCKE_AUTH__KEYS", "[{kid='a',algorithm='HS256',secret='hunter2'}]"),
    ] {
        let refused = run_to_end(&[], &[(name, value)]);
        assert_refused(&refused, 2, &[name]);
        let flag = format!("{}={value}", name.replace("ENCKE_AUTH__", "auth.").to_lowercase());
        let refused_flag = run_to_end(&["--set", &flag], &[]);
        for output in [refused, refused_flag] {
            assert!(!String::from_utf8_lossy(&output.stderr).contains("hunter"), "{output:?}");
        }
    }
}

#[test]
fn the_environment_is_read_and_flags_win() {
    let ping_interval = |launch: Launch| {
        let server = launch.start();
        server.client().hello.object["hello"]["ping_interval_ms"].as_u64().expect("a number")
    };
    let (_directory, path) = file("[session]\nping_interval = \"21s\"\n");
    let from_file = || Launch::default().argument("--config").argument(&path);
    let and_environment = || from_file().environment("ENCKE_SESSION__PING_INTERVAL", "22s");
    assert_eq!(ping_interval(Launch::default()), 25_000);
    assert_eq!(ping_interval(from_file()), 21_000);
    assert_eq!(ping_interval(and_environment()), 22_000);
    assert_eq!(ping_interval(and_environment().set("session.ping_interval=23s")), 23_000);
    let ignored = Launch::default().environment("ENCKE_BIN", "22s").environment("ENCKE", "22s");
    assert_eq!(ping_interval(ignored), 25_000, "variables without `__` are ignored");
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("the listener is bound").to_string();
    for arguments in
        [["--listen", &address, "--admin", "127.0.0.1:0"], ["--listen", "127.0.0.1:0", "--admin", &address]]
    {
        let arguments = [&arguments[..], &["--set", "listen.wait=off"]].concat();
        assert_refused(&run_to_end(&arguments, &[]), 1, &[&address, "in use"]);
    }
}

#[test]
fn questionable_setting_causes_a_warning() {
    let (_directory, path) = file("[session]\nping_interval = \"2m\"\n");
    let check = run_to_end(&["config", "check", &path], &[]);
    assert!(check.status.success(), "{check:?}");
    let warning = String::from_utf8_lossy(&check.stderr);
    assert!(warning.contains("warning") && warning.contains("session.ping_interval"), "{warning}");
    let server = Launch::with(&["session.ping_interval=2m"]).start();
    server.logs.await_line("session.ping_interval");
}

#[test]
fn a_restarted_server_gets_its_port_back() {
    let server = Launch::default().start();
    let address = server.public.to_string();
    let mut client = server.client();
    server.terminate();
    assert_eq!(client.close_code(), Some(4002), "the server closes first, so its port is in TIME_WAIT");
    drop((client, server));
    let again = Launch::listening_on(&address).start();
    assert_eq!(again.public.to_string(), address);
    again.assert_healthy();
}
