use std::os::unix::fs::PermissionsExt;

use encke_tests::process::Signal;
use encke_tests::server::run_to_end;
use encke_tests::waiting::TIMEOUT;
use encke_tests::{Client, Hello};

use super::{RestartableServer, launch};

/// Runs a server with one session until it has written a snapshot.
#[track_caller]
fn write_snapshot(settings: &[&str]) -> (RestartableServer, Hello) {
    let mut restarts = RestartableServer::with(settings);
    let mut client = restarts.server.client();
    client.subscribe("news");
    restarts.server.admin.publish("news", 1);
    client.object();
    let hello = client.drop_connection();
    restarts.server.await_phase(&hello.session, "suspended");
    restarts.stop();
    (restarts, hello)
}

/// Asserts that the next process sets the file aside under this name, logs why, and serves.
#[track_caller]
fn assert_set_aside(mut restarts: RestartableServer, hello: &Hello, name: &str, why: &str) {
    restarts.start();
    assert_eq!(restarts.files(), [name]);
    let line = restarts.server.logs.await_line(name);
    assert!(line.contains(why), "{line}");
    assert!(!restarts.server.resume(&hello.resume).hello.recovered);
    restarts.server.assert_healthy();
}

#[test]
fn the_file_is_private_and_can_be_shown() {
    let (restarts, hello) = write_snapshot(&[]);
    assert_eq!(restarts.files(), ["snapshot"]);
    let path = restarts.path();
    let mode = path.metadata().expect("the file exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let path = path.display().to_string();
    for _ in 0..2 {
        let output = run_to_end(&["snapshot", "show", &path], &[]);
        let text = String::from_utf8(output.stdout).expect("the output is text");
        assert!(output.status.success(), "{text}");
        for part in [&*format!("session {}", hello.session), "log \"news\"", "1 logs, 1 sessions"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let (_, secret) = hello.resume.split_once('.').expect("a resume token has a dot");
        assert!(!text.contains(secret));
    }
    let missing = run_to_end(&["snapshot", "show", "/nowhere"], &[]);
    assert_eq!(missing.status.code(), Some(1));
}

#[test]
fn a_damaged_file_is_set_aside_and_the_damage_located() {
    let (restarts, hello) = write_snapshot(&[]);
    let mut bytes = std::fs::read(restarts.path()).expect("the file can be read");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(restarts.path(), &bytes).expect("the file can be written");
    let output = run_to_end(&["snapshot", "show", &restarts.path().display().to_string()], &[]);
    let stderr = String::from_utf8(output.stderr).expect("the output is text");
    assert!(stderr.contains("the record at byte "), "{stderr}");
    assert_set_aside(restarts, &hello, "snapshot.damaged", "the checksum is wrong");
}

#[test]
fn a_truncated_file_is_set_aside() {
    let (restarts, hello) = write_snapshot(&[]);
    let bytes = std::fs::read(restarts.path()).expect("the file can be read");
    std::fs::write(restarts.path(), &bytes[..bytes.len() / 2]).expect("the file can be written");
    assert_set_aside(restarts, &hello, "snapshot.damaged", "the file ends within the record");
}

#[test]
fn a_foreign_file_is_set_aside() {
    let (restarts, hello) = write_snapshot(&[]);
    std::fs::write(restarts.path(), "not a snapshot").expect("the file can be written");
    assert_set_aside(restarts, &hello, "snapshot.damaged", "the file is not a snapshot");
}

/// The file is intact, but this process cannot interpret its version.
#[test]
fn a_file_of_a_later_version_is_set_aside() {
    let (restarts, hello) = write_snapshot(&[]);
    let mut bytes = std::fs::read(restarts.path()).expect("the file can be read");
    // The magic bytes are followed by the first record: kind, length, checksum, and a map whose first entry,
    // 0, is the version.
    let (head, payload) = (&bytes[16..25], &bytes[33..]);
    let length = u64::from_le_bytes(head[1..].try_into().expect("eight bytes"));
    let mut payload = payload[..usize::try_from(length).expect("the length is small")].to_vec();
    assert_eq!(payload[1..3], [0, 1]);
    payload[2] = 2;
    let checksum = ring::digest::digest(&ring::digest::SHA256, &[head, &payload].concat());
    bytes[25..33].copy_from_slice(&checksum.as_ref()[..8]);
    bytes[33..33 + payload.len()].copy_from_slice(&payload);
    std::fs::write(restarts.path(), &bytes).expect("the file can be written");
    let output = run_to_end(&["snapshot", "show", &restarts.path().display().to_string()], &[]);
    let stderr = String::from_utf8(output.stderr).expect("the output is text");
    let why = "written by a newer server: its version is 2, this server reads 1";
    assert!(stderr.contains(why), "{stderr}");
    assert_set_aside(restarts, &hello, "snapshot.newer", why);
}

#[test]
fn an_old_file_is_set_aside() {
    // Any restart takes longer than this maximum age.
    let (mut restarts, hello) = write_snapshot(&[]);
    restarts.settings.push("shutdown.snapshot_max_age=1ms".to_owned());
    assert_set_aside(restarts, &hello, "snapshot.stale", "too old");
}

#[test]
fn a_missing_folder_is_an_error_at_start() {
    let output = run_to_end(
        &["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--set", "shutdown.snapshot=/nowhere/at/all"],
        &[],
    );
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).expect("the output is text");
    assert!(stderr.contains("/nowhere/at/all.lock") && stderr.contains("shutdown.snapshot"), "{stderr}");
}

/// The setting names an existing directory instead of a file.
#[test]
fn a_folder_at_the_path_is_an_error_and_is_kept() {
    let folder = tempfile::tempdir().expect("a directory can be created");
    let path = folder.path().join("snapshot");
    std::fs::create_dir(&path).expect("a directory can be created");
    std::fs::write(path.join("other"), "not a snapshot").expect("the file can be written");
    let setting = format!("shutdown.snapshot={}", path.display());
    let output = run_to_end(&["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--set", &setting], &[]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).expect("the output is text");
    assert!(stderr.contains("is not a file") && stderr.contains("shutdown.snapshot"), "{stderr}");
    assert!(path.join("other").exists());
}

/// A starting process waits until the previous one has written its snapshot, even if the two use different
/// addresses.
#[test]
fn a_second_process_waits_for_the_first() {
    let mut restarts = RestartableServer::with(&["listen.wait=60s"]);
    let hello = restarts.server.suspended_session();
    let next = launch("127.0.0.1:0", &restarts.path(), &restarts.settings).spawn();
    next.logs.await_line("waiting for the process that holds the snapshot's lock");
    // A waiting process can be terminated.
    let third = launch("127.0.0.1:0", &restarts.path(), &restarts.settings).spawn();
    third.logs.await_line("waiting for the process that holds the snapshot's lock");
    let mut third = third.process;
    third.signal(Signal::TERM);
    assert_eq!(third.await_exit(TIMEOUT).code(), Some(0));
    restarts.terminate_and_wait();
    let next = next.await_banner();
    let resumed = Client::connect(next.public, &format!("resume={}", hello.resume));
    assert!(resumed.hello.recovered);
}

#[test]
fn a_second_process_gives_up_after_a_while() {
    let restarts = RestartableServer::with(&[]);
    let mut next = launch("127.0.0.1:0", &restarts.path(), &["listen.wait=200ms".to_owned()]).spawn();
    assert_eq!(next.process.await_exit(TIMEOUT).code(), Some(1));
    next.logs.await_line("another process holds the lock ");
    restarts.server.assert_healthy();
}
