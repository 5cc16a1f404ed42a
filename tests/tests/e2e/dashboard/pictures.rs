use std::path::PathBuf;

use encke_tests::client::BackgroundClient;
use encke_tests::crowd::CROWD_TIMEOUT;
use encke_tests::loadgen::LoadgenRun;
use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::{eventually_within, until};
use encke_tests::{Client, Dashboard, EventStream, Hello, RunningServer};
use serde_json::json;

use super::{client_of, server_with_users};

/// Maximum size of a picture, in bytes. The README shows all pictures.
const MAX_BYTES: u64 = 150_000;

/// Minimum uptime of the server in the pictures, in milliseconds.
const MIN_UPTIME_MS: f64 = 25_000.0;

const USERS: [&str; 8] = ["alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi"];

/// Channels, each with the number of rounds between its messages.
const CHANNELS: [(&str, usize); 6] = [
    ("prices.eur", 1),
    ("prices.usd", 2),
    ("chat.lobby", 3),
    ("/games/7/moves", 4),
    ("news", 9),
    ("orders", 16),
];

/// Activity on the server: clients connect, some disconnect and resume, and messages are published.
struct Activity<'a> {
    server: &'a RunningServer,
    staying: Vec<BackgroundClient>,
    away: Vec<(&'static str, Hello)>,
    round: usize,
}

impl Activity<'_> {
    fn next_round(&mut self) {
        self.round += 1;
        for (channel, _) in CHANNELS.iter().filter(|(_, every)| self.round.is_multiple_of(*every)) {
            self.server.admin.publish(channel, json!({ "round": self.round, "from": "somewhere" }));
        }
        let user = USERS[self.round % USERS.len()];
        if self.round.is_multiple_of(11) {
            let mut client = client_of(self.server, user);
            client.subscribe(CHANNELS[self.round % CHANNELS.len()].0);
            if self.round.is_multiple_of(2) {
                self.staying.push(client.into_background());
            } else {
                self.away.push((user, client.drop_connection()));
            }
        }
        if self.round.is_multiple_of(37)
            && let Some((user, hello)) = self.away.pop()
        {
            self.staying.push(resume(self.server, user, &hello).into_background());
        }
    }
}

fn resume(server: &RunningServer, user: &str, hello: &Hello) -> Client {
    let token = sign(&json!({ "sub": user, "channels": { "*": ["subscribe"] } }), SECRET);
    Client::connect(server.public, &format!("resume={}&token={token}", hello.resume))
}

/// Returns the directory for the pictures: `target/pictures`, or with `ENCKE_PICTURES=1` the directory of the
/// README's pictures.
fn folder() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let is_for_readme = std::env::var_os("ENCKE_PICTURES").is_some();
    root.join(if is_for_readme { "server/dashboard/pictures" } else { "target/pictures" })
}

#[track_caller]
fn take(page: &mut Dashboard, name: &str, height: u32) {
    for (scheme, picture) in [("light", name.to_owned()), ("dark", format!("{name}-dark"))] {
        if scheme == "dark" && name != "overview" {
            continue;
        }
        page.perform("view", &json!([{ "width": 1280, "height": height, "colorScheme": scheme }]));
        let path = folder().join(format!("{picture}.png"));
        page.perform("picture", &json!([path]));
        let bytes = std::fs::metadata(&path).expect("the picture was written").len();
        assert!((5_000..MAX_BYTES).contains(&bytes), "{picture}: {bytes} bytes");
    }
    page.perform("view", &json!([{ "width": 1280, "height": 800, "colorScheme": "light" }]));
}

/// Continues the activity until the server's uptime, as shown on its page, exceeds `age_ms`.
#[track_caller]
fn run_until(activity: &mut Activity<'_>, page: &mut Dashboard, age_ms: f64) {
    eventually_within(CROWD_TIMEOUT, "the server has been up for long enough", || {
        activity.next_round();
        let uptime = page.perform("attribute", &json!(["[data-uptime-ms]", "data-uptime-ms"]));
        uptime.as_str()?.parse::<f64>().ok().filter(|uptime_ms| *uptime_ms > age_ms)
    });
}

/// Starts clients of this user that stay connected and answer pings.
fn crowd(server: &RunningServer, user: &str) -> LoadgenRun {
    let token = sign(&json!({ "sub": user }), SECRET);
    let arguments = ["--connections", "90", "--rate", "50", "--duration", "5m", "--token", &token];
    LoadgenRun::start("hold", server, &arguments)
}

#[test]
fn pictures_of_all_pages() {
    let server = server_with_users(&[
        "session.ping_interval=5s",
        "session.pong_timeout=3s",
        "limits.max_sessions=400",
        "limits.max_channels=8",
    ]);
    let mut alice = client_of(&server, "alice");
    for channel in ["news", "chat.lobby", "/games/**"] {
        alice.subscribe(channel);
    }
    let alice = alice.into_background();
    let _crowds = ["kiosk", "phone", "wall"].map(|user| crowd(&server, user));
    let token = sign(&json!({ "sub": "alice", "channels": { "*": ["subscribe"] } }), SECRET);
    let _stream = EventStream::open(server.public, &format!("channels=news&token={token}"));
    let mut activity = Activity { server: &server, staying: Vec::new(), away: Vec::new(), round: 0 };
    let mut page = Dashboard::open(server.admin.address(), "#/");
    run_until(&mut activity, &mut page, 0.4 * MIN_UPTIME_MS);
    let hello = alice.hello.clone();
    drop(alice);
    run_until(&mut activity, &mut page, 0.6 * MIN_UPTIME_MS);
    let alice = resume(&server, "alice", &hello).into_background();
    run_until(&mut activity, &mut page, MIN_UPTIME_MS);
    take(&mut page, "overview", 1060);

    page.go("#/sessions");
    until("the table is full", || page.texts(".list tbody th").len() == 50);
    take(&mut page, "sessions", 800);

    page.go(&format!("#/sessions/{}", alice.hello.session));
    page.await_texts(".events b", &["resumed", "suspended", "opened"]);
    take(&mut page, "session", 800);

    page.go("#/channels");
    page.await_visible("[data-channel='prices.eur'][data-sort='rate']");
    take(&mut page, "channels", 700);

    page.go("#/channels/chat.lobby");
    until("the log is shown", || page.texts(".log code").len() > 10);
    page.await_visible("tbody .badge");
    take(&mut page, "channel", 800);

    page.go("#/limits");
    page.await_visible(".limits tbody th");
    take(&mut page, "limits", 620);

    page.go("#/playground");
    page.fill("#token", &token);
    page.click("button:text-is('Connect')");
    until("the hello is shown", || page.texts("[data-way='received']").len() == 1);
    page.fill("#token", "");
    page.click("button:text-is('Send')");
    until("the reply is shown", || page.texts("[data-way='received']").len() > 1);
    page.click("text=Drop the connection");
    page.await_visible("[data-deadline='reconnect']");
    take(&mut page, "playground", 920);
}
