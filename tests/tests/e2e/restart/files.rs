use std::os::unix::fs::{PermissionsExt, symlink};

use encke_tests::server::run_to_end;
use encke_tests::{Backend, Client, Hello, RawClient};

use super::{MOVED, RestartableServer, launch};
use crate::webhooks::{SESSIONS, await_session, webhook};

const DRAINING: u16 = 4002;

/// Runs a server with one session until it has written a snapshot.
#[track_caller]
fn write_snapshot() -> (RestartableServer, Hello) {
    write_snapshot_of(RestartableServer::with(&[]))
}

#[track_caller]
fn write_snapshot_of(mut restarts: RestartableServer) -> (RestartableServer, Hello) {
    let mut client = restarts.server.client();
    client.subscribe("news");
    restarts.server.admin.publish("news", 1);
    client.object();
    let hello = restarts.server.suspend(client);
    restarts.stop();
    (restarts, hello)
}

/// A symbolic link under the file's temporary name is replaced, and its target is not changed.
#[test]
fn the_file_is_private_and_can_be_shown() {
    let restarts = RestartableServer::with(&[]);
    let victim = restarts.folder.path().join("victim");
    std::fs::write(&victim, "untouched").expect("the file can be written");
    symlink(&victim, restarts.folder.path().join("snapshot.unfinished")).expect("a link");
    let (restarts, hello) = write_snapshot_of(restarts);
    assert_eq!(std::fs::read_to_string(&victim).expect("the file exists"), "untouched");
    std::fs::remove_file(&victim).expect("the file exists");
    assert_eq!(restarts.files(), ["snapshot"]);
    let mode = restarts.path().metadata().expect("the file exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for _ in 0..2 {
        let output = restarts.show_snapshot();
        let text = output.stdout;
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

/// Replaces the version in the first record. The magic bytes are followed by the record: kind, length, checksum,
/// and a map whose first entry, 0, is the version.
fn set_version(bytes: &mut [u8], version: u8) {
    let head = bytes[16..25].to_vec();
    let length = u64::from_le_bytes(head[1..].try_into().expect("eight bytes"));
    let payload = &mut bytes[33..33 + usize::try_from(length).expect("the length is small")];
    assert_eq!(payload[1..3], [0, 1]);
    payload[2] = version;
    let checksum = ring::digest::digest(&ring::digest::SHA256, &[&head, &*payload].concat());
    bytes[25..33].copy_from_slice(&checksum.as_ref()[..8]);
}

/// Change to the bytes of a snapshot.
type Spoil = fn(&mut Vec<u8>);

/// The next process serves without the sessions, and logs the reason.
#[test]
fn an_unusable_file_is_set_aside() {
    let spoil: [(Spoil, &str, &str); 5] = [
        (|bytes| *bytes.last_mut().expect("a byte") ^= 1, "snapshot.damaged", "the checksum is wrong"),
        (|bytes| bytes.truncate(bytes.len() / 2), "snapshot.damaged", "the file ends within the record"),
        (|bytes| *bytes = b"not a snapshot".to_vec(), "snapshot.damaged", "the file is not a snapshot"),
        // The file is intact, but this process cannot interpret its version.
        (
            |bytes| set_version(bytes, 2),
            "snapshot.newer",
            "written by a newer server: its version is 2, this server reads 1",
        ),
        // Any restart takes longer than the maximum age, which is set below.
        (|_| (), "snapshot.stale", "too old"),
    ];
    for (spoil, name, why) in spoil {
        let (mut restarts, hello) = write_snapshot();
        let mut bytes = std::fs::read(restarts.path()).expect("the file can be read");
        spoil(&mut bytes);
        std::fs::write(restarts.path(), &bytes).expect("the file can be written");
        if name == "snapshot.stale" {
            restarts.settings.push("shutdown.snapshot_max_age=1ms".to_owned());
        } else {
            let stderr = restarts.show_snapshot().stderr;
            assert!(stderr.contains(why), "{stderr}");
        }
        restarts.start();
        assert_eq!(restarts.files(), [name]);
        let line = restarts.server.logs.await_line(name);
        assert!(line.contains(why), "{line}");
        assert!(!restarts.server.resume(&hello.resume).hello.recovered);
        restarts.server.assert_healthy();
    }
}

/// The setting names a file in a missing directory, or a directory, which is kept.
#[test]
fn an_unusable_path_is_an_error_at_start() {
    let folder = tempfile::tempdir().expect("a directory can be created");
    let path = folder.path().join("snapshot");
    std::fs::create_dir(&path).expect("a directory can be created");
    std::fs::write(path.join("other"), "not a snapshot").expect("the file can be written");
    for (path, why) in
        [("/nowhere/at/all", "/nowhere/at does not exist"), (&path.display().to_string(), "is a directory")]
    {
        let setting = format!("shutdown.snapshot={path}");
        let arguments = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--set", &setting];
        run_to_end(&arguments, &[]).assert_failed(2, &[why, "shutdown.snapshot"]);
    }
    assert!(path.join("other").exists());
}

#[test]
fn sessions_end_if_no_snapshot_can_be_written() {
    // A file size limit has the effect of a full disk.
    for (shell, removes_directory, why) in
        [("true", true, "No such file"), ("ulimit -f 0", false, "File too large")]
    {
        let mut restarts = RestartableServer::launched(&[], |launch| launch.run_first(shell));
        let mut client = restarts.server.client();
        if removes_directory {
            std::fs::remove_dir_all(restarts.folder.path()).expect("the directory exists");
        }
        restarts.server.terminate();
        assert_eq!(client.object()["goaway"]["reason"], "draining");
        assert_eq!(client.close_code(), Some(DRAINING));
        assert_eq!(restarts.server.await_exit().code(), Some(1));
        let line = restarts.server.logs.await_line("cannot write the snapshot");
        assert!(line.contains(why), "{line}");
        restarts.server.await_lifecycle(&client.hello.session, "opened connect, closed draining");
    }
}

/// The directory vanishes after the clients have received `moved`.
#[test]
fn moved_sessions_end_if_the_snapshot_fails_late() {
    let backend = Backend::start();
    let webhook = webhook(&backend.url("/encke"), SESSIONS, "");
    let drain = ["shutdown.drain=60s", "session.close_timeout=60s"];
    let mut restarts = RestartableServer::with(&[&format!("webhook=[{webhook}]"), drain[0], drain[1]]);
    let (mut stays, hello) = RawClient::greeted(restarts.server.public, "");
    restarts.server.terminate();
    stays.object();
    assert_eq!(stays.close_code(), MOVED);
    std::fs::remove_dir_all(restarts.folder.path()).expect("the directory exists");
    drop(stays);
    assert_eq!(restarts.server.await_exit().code(), Some(1));
    restarts.server.logs.await_line("cannot write the snapshot");
    let events = [
        (1, "session.opened", "connect"),
        (2, "session.suspended", "moved"),
        (3, "session.closed", "draining"),
    ];
    await_session(&backend, &hello.session, &events);
}

/// A second signal ends the wait for clients, and a third one terminates the server.
#[test]
fn a_second_signal_still_writes_the_snapshot() {
    let mut restarts = RestartableServer::with(&["shutdown.drain=60s", "session.close_timeout=60s"]);
    let (mut stays, hello) = RawClient::greeted(restarts.server.public, "");
    restarts.server.terminate();
    stays.object();
    assert_eq!(stays.close_code(), MOVED);
    restarts.stop();
    restarts.start();
    assert!(restarts.server.resume(&hello.resume).hello.recovered);
}

/// A starting process waits until the previous one has written its snapshot, even if the two use different
/// addresses. It gives up after `listen.wait`.
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
    third.stop();
    let settings = ["listen.wait=200ms".to_owned()];
    let mut fourth = launch("127.0.0.1:0", &restarts.path(), &settings).spawn();
    assert_eq!(fourth.process.await_exit().code(), Some(1));
    fourth.logs.await_line("another process holds the lock ");
    restarts.server.stop();
    let next = next.await_banner();
    let resumed = Client::connect(next.public, &format!("resume={}", hello.resume));
    assert!(resumed.hello.recovered);
}
