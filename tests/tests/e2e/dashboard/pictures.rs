use std::process::Command;

use encke_tests::client::BackgroundClient;
use encke_tests::crowd::CROWD_TIMEOUT;
use encke_tests::loadgen::LoadgenRun;
use encke_tests::tokens::token;
use encke_tests::waiting::{eventually_within, until};
use encke_tests::{Client, Dashboard, EventStream, RunningServer};
use serde_json::json;

/// Maximum size of a picture, in bytes. The documents show all pictures.
const MAX_BYTES: u64 = 150_000;

/// Minimum uptime of the server in the pictures, in milliseconds.
const MIN_UPTIME_MS: f64 = 25_000.0;

/// Channels, each with the number of rounds between its messages.
const CHANNELS: [(&str, usize); 6] = [
    ("prices.eur", 1),
    ("prices.usd", 2),
    ("chat.lobby", 3),
    ("/games/7/moves", 4),
    ("news", 9),
    ("orders", 16),
];

/// Publishes messages until the server's uptime, as shown on its page, exceeds a part of the minimum. Clients
/// connect, and some of them leave.
#[track_caller]
fn run_until(server: &RunningServer, page: &mut Dashboard, staying: &mut Vec<BackgroundClient>, part: f64) {
    let mut round = 0_usize;
    eventually_within(CROWD_TIMEOUT, "the server has been up for long enough", || {
        round += 1;
        for (channel, _) in CHANNELS.iter().filter(|(_, every)| round.is_multiple_of(*every)) {
            server.admin.publish(channel, json!({ "round": round, "from": "somewhere" }));
        }
        if round.is_multiple_of(11) {
            let mut client = server.client_of(["bob", "carol", "dave", "erin"][round % 4]);
            client.subscribe(CHANNELS[round % CHANNELS.len()].0);
            if round.is_multiple_of(2) {
                staying.push(client.into_background());
            }
        }
        let uptime = page.perform("attribute", &json!(["[data-uptime-ms]", "data-uptime-ms"]));
        let uptime_ms = uptime.as_str()?.parse::<f64>().ok()?;
        (uptime_ms > part * MIN_UPTIME_MS).then_some(())
    });
}

#[track_caller]
fn take(page: &mut Dashboard, name: &str, height: u32) {
    for (scheme, picture) in [("light", name.to_owned()), ("dark", format!("{name}-dark"))] {
        if scheme == "dark" && name != "overview" {
            continue;
        }
        page.perform("view", &json!([{ "width": 1280, "height": height, "colorScheme": scheme }]));
        let path = format!("{}/../server/dashboard/pictures/{picture}.png", env!("CARGO_MANIFEST_DIR"));
        page.perform("picture", &json!([path]));
        let quantized = Command::new("pngquant").args(["--force", "--ext", ".png", &path]).status();
        assert!(quantized.expect("pngquant is installed").success());
        let bytes = std::fs::metadata(&path).expect("the picture was written").len();
        assert!((5_000..MAX_BYTES).contains(&bytes), "{picture}: {bytes} bytes");
    }
    page.perform("view", &json!([{ "width": 1280, "height": 800, "colorScheme": "light" }]));
}

/// Starts clients of this user that stay connected and answer pings.
fn crowd(server: &RunningServer, user: &str) -> LoadgenRun {
    let token = token(user, json!({}));
    let arguments = ["--connections", "90", "--rate", "50", "--duration", "5m", "--token", &token];
    LoadgenRun::start("hold", server, &arguments)
}

/// Replaces the pictures in the documents.
#[test]
#[ignore = "run it to update the documents: cargo test -p encke-tests --test e2e pictures -- --ignored"]
fn pictures_of_all_pages() {
    let server = RunningServer::with_tokens(&[
        "session.ping_interval=5s",
        "session.pong_timeout=3s",
        "limits.max_sessions=400",
        "limits.max_channels=8",
    ]);
    let mut alice = server.client_of("alice");
    for channel in ["news", "chat.lobby", "/games/**"] {
        alice.subscribe(channel);
    }
    let alice = alice.into_background();
    let _crowds = ["kiosk", "phone", "wall"].map(|user| crowd(&server, user));
    let token = token("alice", json!({}));
    let _stream = EventStream::open(server.public, &format!("channels=news&token={token}"));
    CHANNELS.iter().for_each(|(channel, _)| _ = server.admin.publish(channel, json!({ "round": 0 })));
    let (mut page, mut staying) = (Dashboard::open(server.admin.address(), "#/"), Vec::new());
    run_until(&server, &mut page, &mut staying, 0.4);
    let resume = alice.hello.resume.clone();
    drop(alice);
    run_until(&server, &mut page, &mut staying, 0.6);
    let query = format!("resume={resume}&token={token}");
    let alice = Client::connect(server.public, &query).into_background();
    run_until(&server, &mut page, &mut staying, 1.0);
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
    until("the log is shown", || !page.texts(".log code").is_empty());
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
