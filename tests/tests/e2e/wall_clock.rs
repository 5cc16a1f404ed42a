use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use encke_tests::server::FREQUENT_PINGS;
use encke_tests::{Launch, RunningServer};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the path of libfaketime. Debian installs it in a directory named after the architecture.
fn faketime() -> PathBuf {
    let libraries = fs::read_dir("/usr/lib").expect("/usr/lib can be read").flatten();
    let found =
        libraries.map(|entry| entry.path().join("faketime/libfaketime.so.1")).find(|path| path.is_file());
    found.expect("libfaketime is missing: install it (apt-get install libfaketime)")
}

/// Writes the file from which libfaketime reads the wall clock's offset. The file is replaced atomically,
/// because it may be read at any time.
fn set_offset(file: &Path, offset: &str) {
    let new = file.with_extension("new");
    fs::write(&new, offset).expect("the file can be written");
    fs::rename(new, file).expect("a file can be renamed");
}

fn server(offset: &Path) -> RunningServer {
    Launch::with(&FREQUENT_PINGS)
        .set("session.reconnect_window=60s")
        .set("session.lifetime=1h")
        .set("session.idle=1h")
        .environment("LD_PRELOAD", faketime())
        .environment("FAKETIME_TIMESTAMP_FILE", offset)
        .environment("FAKETIME_NO_CACHE", "1")
        .environment("DONT_FAKE_MONOTONIC", "1")
        .environment("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .start()
}

/// Returns the time of the server's wall clock, from the log line for a new client.
fn wall_clock(server: &RunningServer) -> SystemTime {
    let client = server.client();
    server.await_lifecycle(&client.hello.session, "opened connect");
    let records = server.logs.records();
    let opened = records.iter().find(|record| record["session"] == *client.hello.session);
    let timestamp = opened.and_then(|record| record["timestamp"].as_str()).expect("a record has a timestamp");
    humantime::parse_rfc3339(timestamp).expect("timestamps are of RFC 3339")
}

/// Returns the days in the `Date` of responses, which different threads may send.
fn days(server: &RunningServer) -> BTreeSet<String> {
    let date = |_| server.admin.get("/healthz").header("date").expect("a date")[..16].to_owned();
    (0..16).map(date).collect()
}

#[test]
fn clock_jumps_have_no_effect() {
    let directory = tempfile::tempdir().expect("the file can be written");
    let offset: PathBuf = directory.path().join("offset");
    set_offset(&offset, "+0");
    let server = server(&offset);
    let clients: Vec<_> = (0..3).map(|_| server.client().into_background()).collect();
    let suspended = server.suspended_session();
    let start = wall_clock(&server);
    let mut before = days(&server);

    set_offset(&offset, "+1d");
    let later = wall_clock(&server).duration_since(start).expect("the clock jumped forwards");
    assert!(later >= DAY, "the jump has not reached the server: {later:?}");
    clients.iter().for_each(|client| client.await_more_pings(1));
    before.extend(days(&server));

    set_offset(&offset, "-1d");
    let earlier = start.duration_since(wall_clock(&server)).expect("the clock jumped backwards");
    assert!(earlier > DAY / 2, "the jump has not reached the server: {earlier:?}");
    clients.iter().for_each(|client| client.await_more_pings(1));
    assert!(before.is_disjoint(&days(&server)), "`Date` follows the clock");

    for client in &clients {
        assert!(!client.has_ended(), "{:?}", client.received());
        server.await_lifecycle(&client.hello.session, "opened connect");
    }
    assert!(server.resume(&suspended.resume).hello.recovered);
    let metrics = server.admin.metrics();
    assert_eq!(metrics.value("encke_wheel_stalls_total"), 0.0);
    assert_eq!(metrics.events("suspended", "pong_timeout"), 0.0);
}
