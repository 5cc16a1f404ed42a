//! Clients send, stay silent, reconnect and take over at random, while every connection is parked whenever
//! possible. Each client must receive every message of its channels once and in order. `ENCKE_SEED=<n>`
//! repeats the clients' choices.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use encke_tests::waiting::let_pass;
use encke_tests::{Client, RunningServer, ServerOutput};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use super::{PARK_AT_ONCE, seq_and_offset, unparked};

const CLIENTS: u64 = 40;
const CHANNELS: usize = 4;
const DURATION: Duration = Duration::from_secs(4);

struct RandomClient<'a> {
    server: &'a RunningServer,
    client: Option<Client>,
    rng: SmallRng,
    seq: u64,
    /// Offset of the last message received in each channel.
    offsets: BTreeMap<String, u64>,
    /// Number of channels whose last message has been received.
    ended_channels: usize,
}

impl RandomClient<'_> {
    fn client(&mut self) -> &mut Client {
        self.client.as_mut().expect("the client is connected except while it resumes")
    }

    fn acknowledge(&mut self) {
        let seq = self.seq;
        self.client().send(format!(r#"{{"ack":{{"seq":{seq}}}}}"#));
    }

    fn receive(&mut self, object: &Value) {
        if object["reply"].is_object() {
            assert!(object["reply"]["ok"].is_object(), "{object}");
            return;
        }
        let message = &object["message"];
        let channel = message["channel"].as_str().expect("a name");
        let last = self.offsets.get_mut(channel).expect("the channel is subscribed to");
        self.seq += 1;
        *last += 1;
        assert_eq!(seq_and_offset(object), (self.seq, *last), "{object}");
        self.ended_channels += usize::from(message["data"] == "end");
    }

    fn receive_for(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            match self.client().next_within(until.saturating_duration_since(Instant::now())) {
                Some(ServerOutput::Object(object)) => self.receive(&object),
                Some(ServerOutput::Ping(_) | ServerOutput::Pong(_)) => {}
                // This thread was not run in time to answer a ping.
                Some(ServerOutput::Close(4000, _)) => self.resume(),
                Some(other) => panic!("{other:?}"),
                None => return,
            }
        }
    }

    fn resume(&mut self) {
        let hello = self.client().hello.clone();
        if self.rng.random_bool(0.5) {
            // Close the old connection first. Otherwise the new connection takes over from it.
            self.client = None;
        }
        let query = format!("resume={}&seq={}", hello.resume, self.seq);
        let client = Client::connect(self.server.public, &query);
        assert!(client.hello.recovered, "{:?}", client.hello);
        self.client = Some(client);
    }

    fn act(&mut self) {
        match self.rng.random_range(0..20) {
            0..8 => {
                let channel = self.rng.random_range(0..CHANNELS);
                let length = if self.rng.random_bool(0.05) { 20_000 } else { self.rng.random_range(0..300) };
                let data = "x".repeat(length);
                self.client().send(format!(r#"{{"publish":{{"channel":"c{channel}","data":"{data}"}}}}"#));
            }
            8..11 => self.acknowledge(),
            11..13 => self.client().send_ping(b"?"),
            13 => self.resume(),
            _ => {
                let silent = self.rng.random_range(0..30);
                self.receive_for(Duration::from_millis(silent));
            }
        }
    }
}

#[test]
fn every_message_arrives_once_under_random_activity() {
    let seed = encke_seeds::seed();
    let server = RunningServer::with(&[
        PARK_AT_ONCE,
        "limits.commands_per_second=0",
        "limits.frames_per_second=0",
        "channel.history_messages=0",
        "channel.history_bytes=0B",
        "channel.history_total_bytes=0B",
        "session.max_unacked=64",
        "session.ping_interval=3s",
        "session.pong_timeout=3s",
        "timers.ping_slack=20ms",
        "limits.send_buffer=16KiB",
    ]);
    let mut seeds = SmallRng::seed_from_u64(seed);
    let mut crowd: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut client = server.client();
            let names: Vec<_> = (0..CHANNELS).map(|channel| format!("c{channel}")).collect();
            names.iter().for_each(|name| _ = client.subscribe(name));
            RandomClient {
                server: &server,
                client: Some(client),
                rng: SmallRng::from_rng(&mut seeds),
                seq: 0,
                offsets: names.into_iter().map(|name| (name, 0)).collect(),
                ended_channels: 0,
            }
        })
        .collect();
    let until = Instant::now() + DURATION;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = crowd
            .iter_mut()
            .map(|one| {
                let is_over = &is_over;
                scope.spawn(move || {
                    while Instant::now() < until {
                        one.act();
                    }
                    while !is_over.load(Ordering::Acquire) || one.ended_channels < CHANNELS {
                        one.receive_for(Duration::from_millis(10));
                        one.acknowledge();
                        assert!(until.elapsed() < DURATION * 15, "{} have ended", one.ended_channels);
                    }
                })
            })
            .collect();
        let_pass(until.saturating_duration_since(Instant::now()));
        // Once these messages are in the logs, so are all messages published before.
        let mut last = server.client();
        for channel in 0..CHANNELS {
            last.publish(&format!("c{channel}"), [r#""end""#]);
        }
        is_over.store(true, Ordering::Release);
        for thread in threads {
            thread.join().expect("the client received every message");
        }
    });
    assert!(unparked(&server) > 100.0, "connections were parked often");
}
