//! A Bayeux server over long-polling that sends no messages, and behaves as each test requires.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::fake_polls::{next_request, serve_each};

/// Announced hold time of a connect, in milliseconds.
const HOLD_MS: u64 = 300;

/// How the server treats its clients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum BayeuxBehaviour {
    Honest,
    /// Holds connects for this long.
    HoldsFor(Duration),
    /// Answers every connect immediately, and advises a pause of this length because of `multiple-clients`.
    AdvisesPause(Duration),
    /// Does not recognise clients whose handshake used another connection.
    Forgets,
    /// Ends the session with this error whenever a connect would be held.
    EndsSession(&'static str),
    /// Refuses every handshake.
    Refuses,
    /// Supports no extensions.
    NoExtensions,
}

pub(crate) struct FakeBayeux {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl FakeBayeux {
    pub(crate) async fn start(behaviour: BayeuxBehaviour) -> Self {
        let requests = Arc::<Mutex<Vec<Value>>>::default();
        let all = requests.clone();
        let address = serve_each(move |stream| {
            let all = all.clone();
            async move { serve(stream, behaviour, &all).await }
        });
        Self { address: address.await, requests }
    }

    /// Returns all messages received on a channel.
    pub(crate) fn requests(&self, channel: &str) -> Vec<Value> {
        let requests = self.requests.lock().expect("the mutex is not poisoned");
        requests.iter().filter(|message| message["channel"] == channel).cloned().collect()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/bayeux", self.address)
    }
}

async fn serve(
    stream: TcpStream,
    behaviour: BayeuxBehaviour,
    requests: &Mutex<Vec<Value>>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let mut is_known = behaviour != BayeuxBehaviour::Forgets;
    while let Some((line, body)) = next_request(&mut stream).await? {
        assert_eq!(line, "POST /bayeux HTTP/1.1");
        let messages: Vec<Value> = serde_json::from_str(&body).expect("clients send arrays");
        requests.lock().expect("the mutex is not poisoned").extend(messages.iter().cloned());
        let mut answer = Vec::new();
        for message in &messages {
            is_known |= message["channel"] == "/meta/handshake";
            answer.push(reply(message, is_known, behaviour).await);
        }
        let body = Value::Array(answer).to_string();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).await?;
    }
    Ok(())
}

async fn reply(message: &Value, is_known: bool, behaviour: BayeuxBehaviour) -> Value {
    let channel = &message["channel"];
    let mut reply = json!({"channel": channel, "id": message["id"], "successful": true});
    let refuse = |reply: &mut Value, error: &str| {
        reply["successful"] = json!(false);
        reply["error"] = json!(error);
    };
    match channel.as_str().expect("a channel is text") {
        "/meta/handshake" if behaviour == BayeuxBehaviour::Refuses => refuse(&mut reply, "401::not you"),
        "/meta/handshake" => {
            assert_eq!(message["supportedConnectionTypes"], json!(["long-polling"]));
            reply["clientId"] = json!("a \"client\"");
            reply["advice"] = json!({"reconnect": "retry", "interval": 0, "timeout": HOLD_MS});
            if behaviour != BayeuxBehaviour::NoExtensions && !message["ext"]["ack"].is_null() {
                reply["ext"] = json!({"ack": true});
            }
        }
        "/meta/connect" => {
            assert_eq!(message["clientId"], "a \"client\"");
            let is_first = message["advice"]["timeout"] == 0;
            let ack = message["ext"]["ack"].as_i64();
            if !is_known {
                refuse(&mut reply, "402:c:unknown");
                return reply;
            }
            match behaviour {
                BayeuxBehaviour::EndsSession(error) if !is_first => refuse(&mut reply, error),
                BayeuxBehaviour::AdvisesPause(pause) => {
                    let interval = u64::try_from(pause.as_millis()).expect("it fits into u64");
                    reply["advice"] = json!({"interval": interval, "multiple-clients": true});
                }
                BayeuxBehaviour::HoldsFor(hold) if !is_first => sleep(hold).await,
                _ if !is_first => sleep(Duration::from_millis(HOLD_MS)).await,
                _ => {}
            }
            if let Some(ack) = ack {
                reply["ext"] = json!({"ack": ack + 1});
            }
        }
        _ => {}
    }
    reply
}
