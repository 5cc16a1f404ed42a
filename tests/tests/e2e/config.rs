use std::fs::{self, OpenOptions};
use std::process::Command;

use encke_tests::port::listen;
use encke_tests::process::Process;
use encke_tests::server::run_to_end;
use encke_tests::waiting::TIMEOUT;
use encke_tests::{Launch, binaries};
use tempfile::TempDir;

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
    let command = "ulimit -n 63; exec \"$0\"";
    let mut shell = Command::new("sh");
    let output = Process::start(shell.args(["-c", command]).arg(binaries::encke())).output(TIMEOUT);
    output.assert_failed(2, &["may open 63 descriptors", "LimitNOFILE"]);
}

/// The layers' errors are tested in `server/src/config`. These reach the command line.
#[test]
fn errors_name_the_key_and_the_file() {
    let (_directory, path) = file("[session]\nping_intervall = \"1s\"\n");
    let check = ["config", "check"];
    for arguments in [
        [&check[..], &[&path]].concat(),
        [&check[..], &["--config", &path]].concat(),
        vec!["--config", &path],
    ] {
        let errors = ["`session.ping_intervall`", &path, "did you mean `session.ping_interval`?"];
        run_to_end(&arguments, &[]).assert_failed(2, &errors);
    }
    run_to_end(&["--set", "nothing"], &[]).assert_failed(2, &["nothing"]);
    let environment = [("ENCKE_SESSION__NOTHING", "1s")];
    run_to_end(&[], &environment).assert_failed(2, &["session.nothing", "ENCKE_SESSION__NOTHING"]);
    let environment = [("ENCKE_AUTH__API_KEYS", "['hunter2']")];
    let refused = run_to_end(&[], &environment);
    refused.assert_failed(2, &["ENCKE_AUTH__API_KEYS"]);
    assert!(!refused.stderr.contains("hunter"), "{refused:?}");
    run_to_end(&["--config", "/nowhere.toml"], &[]).assert_failed(2, &["/nowhere.toml"]);
    let (_directory, path) = file("[tls]\ncertificate = \"/nowhere.pem\"\nkey = \"/other.pem\"\n");
    let refused = run_to_end(&["config", "check", &path], &[]);
    refused.assert_failed(2, &["tls.certificate", &path, "/nowhere.pem"]);
    let (_directory, path) = file("[listen]\npublic = \"0.0.0.0:0\"\n");
    let check = ["config", "check", &path];
    run_to_end(&check, &[]).assert_failed(2, &["listen.public", "auth.secret", "--insecure"]);
    let accepted = run_to_end(&[&check[..], &["--insecure"]].concat(), &[]);
    assert!(accepted.status.success(), "{accepted:?}");
}

/// Each line is an error: of the file, the environment or a flag.
#[test]
fn check_reads_all_settings_and_reports_all_errors() {
    let (_directory, path) = file("[session]\nping_interval = \"5s\"\nidle = 5\n[listn]\n");
    let arguments = ["config", "check", &path, "--set", "timers.workers=0", "--listen", "localhost:8300"];
    let checked = run_to_end(&arguments, &[("ENCKE_SHUTDOWN__SNAPSHOT", "/nowhere/at/all")]);
    let errors = [
        "encke: unknown key `listn`",
        "encke: `session.idle`",
        "encke: `listen.public` (set by --set listen.public): \"localhost:8300\" is not an IP address and a port",
        "encke: `session.pong_timeout`",
        "encke: `timers.workers` (set by --set timers.workers)",
        "encke: `shutdown.snapshot` (set by ENCKE_SHUTDOWN__SNAPSHOT): the directory /nowhere/at does not exist",
    ];
    checked.assert_failed(2, &errors);
    assert_eq!(checked.stderr.lines().count(), errors.len(), "{checked:?}");
    let valid = run_to_end(&["config", "check"], &[("ENCKE_SESSION__PING_INTERVAL", "20s")]);
    assert!(valid.status.success(), "{valid:?}");
}

#[test]
fn the_environment_is_read_and_flags_win() {
    let ping_interval = |launch: Launch| {
        let server = launch.start();
        server.client().hello.object["hello"]["ping_interval_ms"].as_u64().expect("a number")
    };
    let (_directory, path) = file("[session]\nping_interval = \"21s\"\n");
    let from_file = || Launch::default().argument("--config").argument(&path);
    // Variables without `__` are ignored.
    let ignored = from_file().environment("ENCKE_BIN", "22s").environment("ENCKE", "22s");
    assert_eq!(ping_interval(ignored), 21_000);
    let and_environment = || from_file().environment("ENCKE_SESSION__PING_INTERVAL", "22s");
    assert_eq!(ping_interval(and_environment()), 22_000);
    assert_eq!(ping_interval(and_environment().set("session.ping_interval=23s")), 23_000);
}

#[test]
fn a_port_in_use_is_named() {
    let (_taken, address) = listen();
    let address = address.to_string();
    for arguments in
        [["--listen", &address, "--admin", "127.0.0.1:0"], ["--listen", "127.0.0.1:0", "--admin", &address]]
    {
        let arguments = [&arguments[..], &["--set", "listen.wait=off"]].concat();
        let holder = format!("(pid {})", std::process::id());
        run_to_end(&arguments, &[]).assert_failed(1, &[&address, "in use", &holder]);
    }
}

#[test]
fn questionable_setting_causes_a_warning() {
    let (_directory, path) = file("[session]\nping_interval = \"2m\"\n");
    let check = run_to_end(&["config", "check", &path], &[]);
    assert!(check.status.success(), "{check:?}");
    let warning = check.stderr;
    assert!(warning.contains("warning") && warning.contains("session.ping_interval"), "{warning}");
    let server = Launch::default().argument("--config").argument(&path).start();
    server.logs.await_line("session.ping_interval");
}
