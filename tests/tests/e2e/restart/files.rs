use std::os::unix::fs::PermissionsExt;

use encke_tests::process::Signal;
use encke_tests::server::run_to_end;
use encke_tests::waiting::TIMEOUT;
use encke_tests::{Client, Hello};

use super::{Restarts, launch};

/// A server that has written a snapshot with one session.
#[track_caller]
fn written(settings: &[&str]) -> (Restarts, Hello) {
    let mut restarts = Restarts::with(settings);
    let mut client = restarts.server.client();
    client.subscribe("news");
    restarts.server.admin.publish("news", 1);
    client.object();
    let hello = client.drop_connection();
    restarts.server.await_phase(&hello.session, "suspended");
    restarts.stop();
    (restarts, hello)
}

/// The next process sets the file aside, says why, and serves.
#[track_caller]
fn assert_set_aside(mut restarts: Restarts, hello: &Hello, name: &str, why: &str) {
    restarts.start();
    assert_eq!(restarts.files(), [name]);
    let line = restarts.server.logs.await_line("the snapshot");
    assert!(line.contains(why) && line.contains(name), "{line}");
    assert!(!restarts.server.resume(&hello.resume).hello.recovered);
    restarts.server.assert_healthy();
}

#[test]
fn the_file_is_for_its_owner_and_can_be_looked_at() {
    let (restarts, hello) = written(&[]);
    assert_eq!(restarts.files(), ["snapshot"]);
    let path = restarts.path();
    let mode = path.metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let path = path.display().to_string();
    for _ in 0..2 {
        let shown = run_to_end(&["snapshot", "show", &path], &[]);
        let text = String::from_utf8(shown.stdout).expect("text");
        assert!(shown.status.success(), "{text}");
        for part in [&*format!("session {}", hello.session), "log \"news\"", "1 logs, 1 sessions"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let (_, secret) = hello.resume.split_once('.').expect("a dot");
        assert!(!text.contains(secret));
    }
    let nothing = run_to_end(&["snapshot", "show", "/nowhere"], &[]);
    assert_eq!(nothing.status.code(), Some(1));
}

#[test]
fn a_damaged_file_is_set_aside_with_the_place() {
    let (restarts, hello) = written(&[]);
    let mut bytes = std::fs::read(restarts.path()).expect("it was written");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(restarts.path(), &bytes).expect("a file");
    let shown = run_to_end(&["snapshot", "show", &restarts.path().display().to_string()], &[]);
    let complaint = String::from_utf8(shown.stderr).expect("text");
    assert!(complaint.contains("the record at byte "), "{complaint}");
    assert_set_aside(restarts, &hello, "snapshot.damaged", "the checksum is wrong");
}

#[test]
fn half_a_file_is_set_aside() {
    let (restarts, hello) = written(&[]);
    let bytes = std::fs::read(restarts.path()).expect("it was written");
    std::fs::write(restarts.path(), &bytes[..bytes.len() / 2]).expect("a file");
    assert_set_aside(restarts, &hello, "snapshot.damaged", "the file ends within the record");
}

#[test]
fn a_foreign_file_is_set_aside() {
    let (restarts, hello) = written(&[]);
    std::fs::write(restarts.path(), "Dear diary").expect("a file");
    assert_set_aside(restarts, &hello, "snapshot.damaged", "the file is not a snapshot");
}

/// A whole one, of which nothing is known but its version.
#[test]
fn a_file_of_a_later_version_is_set_aside() {
    let (restarts, hello) = written(&[]);
    let mut bytes = std::fs::read(restarts.path()).expect("it was written");
    // After the mark, the first record: its kind, length and checksum, and a map whose first entry, 0, is the version.
    let (head, payload) = (&bytes[16..25], &bytes[33..]);
    let length = u64::from_le_bytes(head[1..].try_into().expect("eight bytes"));
    let mut payload = payload[..usize::try_from(length).expect("a small one")].to_vec();
    assert_eq!(payload[1..3], [0, 1]);
    payload[2] = 2;
    let checksum = ring::digest::digest(&ring::digest::SHA256, &[head, &payload].concat());
    bytes[25..33].copy_from_slice(&checksum.as_ref()[..8]);
    bytes[33..33 + payload.len()].copy_from_slice(&payload);
    std::fs::write(restarts.path(), &bytes).expect("a file");
    let shown = run_to_end(&["snapshot", "show", &restarts.path().display().to_string()], &[]);
    let complaint = String::from_utf8(shown.stderr).expect("text");
    let why = "written by a newer server: its version is 2, this server reads 1";
    assert!(complaint.contains(why), "{complaint}");
    assert_set_aside(restarts, &hello, "snapshot.newer", why);
}

#[test]
fn an_old_file_is_set_aside() {
    // Less than any restart takes.
    let (mut restarts, hello) = written(&[]);
    restarts.settings.push("shutdown.snapshot_max_age=1ms".to_owned());
    assert_set_aside(restarts, &hello, "snapshot.stale", "too old");
}

#[test]
fn a_folder_that_is_not_there_is_an_error_at_the_start() {
    let ended = run_to_end(
        &["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--set", "shutdown.snapshot=/nowhere/at/all"],
        &[],
    );
    assert_eq!(ended.status.code(), Some(1));
    let complaint = String::from_utf8(ended.stderr).expect("text");
    assert!(
        complaint.contains("/nowhere/at/all.lock") && complaint.contains("shutdown.snapshot"),
        "{complaint}"
    );
}

/// Someone has named the folder in which the file was to be.
#[test]
fn a_folder_in_its_place_is_an_error_at_the_start_and_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("snapshot");
    std::fs::create_dir(&place).expect("a folder");
    std::fs::write(place.join("other"), "Dear diary").expect("a file");
    let setting = format!("shutdown.snapshot={}", place.display());
    let ended = run_to_end(&["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--set", &setting], &[]);
    assert_eq!(ended.status.code(), Some(1));
    let complaint = String::from_utf8(ended.stderr).expect("text");
    assert!(complaint.contains("is not a file") && complaint.contains("shutdown.snapshot"), "{complaint}");
    assert!(place.join("other").exists());
}

/// A start waits until the process before has written, wherever that listens.
#[test]
fn of_two_processes_the_second_waits_for_the_first() {
    let mut restarts = Restarts::with(&["listen.wait=60s"]);
    let hello = restarts.server.suspended_session();
    let next = launch("127.0.0.1:0", &restarts.path(), &restarts.settings).spawn();
    next.logs.await_line("waiting for the process that holds the snapshot's lock");
    // Another one that is told to end while it waits.
    let third = launch("127.0.0.1:0", &restarts.path(), &restarts.settings).spawn();
    third.logs.await_line("waiting for the process that holds the snapshot's lock");
    let mut third = third.process;
    third.signal(Signal::TERM);
    assert_eq!(third.await_exit(TIMEOUT).code(), Some(0));
    restarts.stop_before_another();
    let next = next.await_banner();
    let back = Client::connect(next.public, &format!("resume={}", hello.resume));
    assert!(back.hello.recovered);
}

#[test]
fn a_second_process_gives_up_after_a_while() {
    let restarts = Restarts::with(&[]);
    let mut next = launch("127.0.0.1:0", &restarts.path(), &["listen.wait=200ms".to_owned()]).spawn();
    assert_eq!(next.process.await_exit(TIMEOUT).code(), Some(1));
    next.logs.await_line("another process holds the lock ");
    restarts.server.assert_healthy();
}
