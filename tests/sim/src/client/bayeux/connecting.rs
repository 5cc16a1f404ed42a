//! One `/meta/connect` after another.

use std::net::IpAddr;

use encke_server::simulation::ConnectRequest;
use rand::RngExt;
use serde_json::json;

use super::heard::{Heard, Reply};
use super::{Connect, Following};
use crate::client::{Carrier, Link, Request, answer};
use crate::fault::Fault;
use crate::scenario::{MILLI, SECOND};
use crate::schedule::{Action, ClientNumber, ConnectionNumber};
use crate::truth::channel_name;
use crate::world::World;

const MOST_SNAPSHOTS: usize = 4;

impl World {
    /// It opens a session, or asks for what is new.
    pub(in crate::client) fn go_on_with_bayeux(&mut self, number: ClientNumber) {
        let is_busy = self.is_busy();
        let client = &mut self.clients[number as usize];
        // Where nothing goes wrong, a client that polls goes on polling.
        let is_on_socket = is_busy && client.rng.random_bool(0.5);
        client.unlink();
        client.polls = !is_on_socket;
        let Some(bayeux) = &mut client.bayeux else { return };
        if is_busy && client.rng.random_bool(0.02) {
            bayeux.forget_session();
        }
        // Some ask for their session before they open a WebSocket.
        let has_session = bayeux.page.is_some();
        if is_on_socket && (has_session || client.rng.random_bool(0.5)) {
            return self.open_bayeux_socket(number);
        }
        client.polls = true;
        if has_session {
            return self.request_connect(number);
        }
        self.ask_for_handshake(number);
        // If the answer does not come.
        self.plan_to_act(number, 2 * SECOND);
    }

    fn request_connect(&mut self, number: ClientNumber) {
        let faults = self.faults_now();
        let connection = self.new_connection(number);
        let wire = self.connection(connection).expect("it is new").wire.clone();
        wire.lock().remember_written();
        let Some((mut connect, messages)) = self.next_connect(number, "long-polling") else { return };
        connect.wire = Some(wire);
        let client = &mut self.clients[number as usize];
        let is_last = client.rng.random_bool(0.3);
        let sips = (faults.allows(Fault::SlowReader) && client.rng.random_bool(0.05))
            .then(|| (client.rng.random_range(1..200), client.rng.random_range(1..5_000_000_000)));
        client.link = Some(Link::of_bayeux(Carrier::Connect, connection, sips));
        let Some(bayeux) = &mut client.bayeux else { return };
        let (ack, browser) = (connect.ack, bayeux.browser);
        bayeux.connect = Some(connect);
        self.trace.say(self.now, format_args!("client {number} connects ({connection}) with {ack:?}"));
        let state = self.connection_mut(connection).expect("it is new");
        let request = ConnectRequest { body: json!(messages).to_string(), is_last, browser };
        state.request = Some(Box::new(Request::connect(request)));
        let latency = state.latency;
        self.now_or_after(latency, Action::Arrive(connection));
    }

    /// A `/meta/connect`, and perhaps a message that shares its request.
    pub(super) fn next_connect(
        &mut self,
        number: ClientNumber,
        connection_type: &str,
    ) -> Option<(Connect, Vec<serde_json::Value>)> {
        let (faults, since) = (self.faults_now(), self.server.now());
        let client = &mut self.clients[number as usize];
        let rng = &mut client.rng;
        let bayeux = client.bayeux.as_mut()?;
        if faults.allows(Fault::OldSeq) && !bayeux.snapshots.is_empty() && rng.random_bool(0.3) {
            let at = rng.random_range(0..bayeux.snapshots.len());
            bayeux.snapshots.truncate(at + 1);
            bayeux.page = bayeux.snapshots.last().cloned();
            self.fault_counts.count(Fault::OldSeq);
        }
        let (id, beside) = (bayeux.next_id(), rng.random_bool(0.05).then(|| bayeux.next_id()));
        let page = bayeux.page.as_mut()?;
        let is_future = page.acknowledges && faults.allows(Fault::FutureSeq) && rng.random_bool(0.03);
        let ack = page.acknowledges.then(|| if is_future { page.ack + 100_000 } else { page.ack });
        let is_due = beside.is_some() || rng.random_bool(0.05);
        let mut message = json!({
            "channel": "/meta/connect",
            "id": id.to_string(),
            "clientId": page.token,
            "connectionType": connection_type,
        });
        if is_due {
            message["advice"] = json!({ "timeout": 0 });
        }
        if let Some(ack) = ack {
            message["ext"] = json!({ "ack": ack });
        }
        let mut messages = vec![message];
        if let Some(beside) = beside {
            let other = json!({ "channel": "/meta/none", "id": beside.to_string(), "clientId": page.token });
            messages.insert(rng.random_range(0..2), other);
        }
        Some((Connect { wire: None, since, id, beside, ack, is_future, is_due }, messages))
    }

    /// The request has reached the server.
    pub(in crate::client) fn connect_arrives(
        &mut self,
        number: ConnectionNumber,
        address: IpAddr,
        connect: ConnectRequest,
    ) {
        let Some(connection) = self.connection(number) else { return };
        let socket = connection.wire.server_socket();
        let (all, browser) = (std::sync::Arc::clone(&self.held), connect.browser);
        let held = move |held| all.lock().push((number, browser, held));
        let task = self.server.serve_connect(socket, address, connect, held);
        self.serve(number, task);
    }

    /// What has come of an answer.
    pub(in crate::client) fn understand_connect(
        &mut self,
        number: ClientNumber,
        connection: ConnectionNumber,
    ) {
        let client = &mut self.clients[number as usize];
        let Some(link) = client.link.as_ref() else { return };
        if link.incoming.is_empty() {
            return;
        }
        let heard = match answer::read(&link.incoming) {
            Ok(None) => return,
            Ok(Some(answer)) if answer.status == 200 => Heard::read(answer.body),
            other => Err(format!("{other:?}")),
        };
        let connect = client.bayeux.as_mut().and_then(|bayeux| bayeux.connect.take());
        let (Ok(heard), Some(connect)) = (&heard, connect) else {
            return self.violate("wire", format!("client {number} reads {heard:?}"));
        };
        self.trace.say(self.now, format_args!("client {number} reads {:?}, {}", heard.events, heard.reply));
        let is_whole = heard.reply.is_to("/meta/connect", connect.id)
            && heard.before.len() == usize::from(connect.beside.is_some())
            && connect.beside.is_none_or(|id| heard.before[0].is_to("/meta/none", id));
        if !is_whole {
            return self
                .violate("replies", format!("client {number} asked {connect:?}, and reads {heard:?}"));
        }
        self.check_browser(connection, &heard.reply, connect.is_due);
        let pause = if heard.reply.successful() {
            self.hear_news(number, connection, heard, &connect)
        } else {
            self.hear_refusal(number, &heard.reply, &connect)
        };
        if self.is_busy() && self.clients[number as usize].rng.random_bool(0.2) {
            self.lose_link(number);
            self.ask_something(number);
        }
        self.end_poll(number, connection, pause);
    }

    /// An answer that brings what is new. Returns how long the client waits before it asks again.
    pub(super) fn hear_news(
        &mut self,
        number: ClientNumber,
        connection: ConnectionNumber,
        heard: &Heard,
        connect: &Connect,
    ) -> u64 {
        let Heard { events, reply, .. } = heard;
        let gaps = reply.gaps();
        self.deliveries += events.len() as u64;
        if connect.is_future {
            self.violate("replies", format!("client {number} claimed too much, and reads {heard:?}"));
            return 0;
        }
        if reply.says_to("none") {
            // It has asked for the end itself.
            let session = self.clients[number as usize].session().unwrap_or_default().to_owned();
            self.check_session_may_be_lost(&session, false);
            self.clients[number as usize].forget_bayeux();
            return MILLI;
        }
        let is_empty = events.is_empty() && gaps.is_empty() && reply.interval().is_none();
        if is_empty && !connect.is_due {
            match connect.wire {
                Some(_) => self.check_hold_was_over(connection),
                None => self.check_connect_was_held(number, connect.since),
            }
        }
        let (server, truth) = (&self.server, &self.truth);
        let first = |log: u8, epoch: &str| {
            let view = server.channel(&channel_name(log));
            view.filter(|view| view.epoch == epoch).map(|view| view.first)
        };
        let Some(bayeux) = &mut self.clients[number as usize].bayeux else { return 0 };
        let Some(page) = &mut bayeux.page else { return 0 };
        let may_have_lost = page.may_have_lost();
        page.look_at_lost(truth);
        let mut wrong = page.gaps(&gaps, truth, first);
        for (channel, number) in events {
            wrong = wrong.and_then(|()| page.message(channel, *number, truth, false));
        }
        let wrong = wrong.and_then(|()| page.check_told(truth));
        if connect.wire.as_ref().is_some_and(|wire| wire.lock().was_given_up) {
            page.came_too_late();
        }
        let came = events.len() as u64;
        let is_ack_wrong = match (connect.ack, reply.ack()) {
            (None, None) => false,
            // It was told to pause, and has what it had.
            (Some(_), None) => came > 0 || !gaps.is_empty(),
            (Some(before), Some(ack)) if gaps.is_empty() && !page.has_gone_back => ack != before + came,
            (Some(before), Some(ack)) => ack < before + came,
            _ => true,
        };
        page.ack = reply.ack().unwrap_or(page.ack);
        let is_pause_forgotten = page.interval > 0
            && reply.interval().is_none()
            && !may_have_lost
            && !page.has_missed_the_end_of_a_pause();
        let interval = page.pause(reply.interval());
        if may_have_lost && reply.interval().is_none() {
            page.excuse_pause();
        }
        if let Err(what) = wrong {
            self.violate("exactly once or a gap", format!("client {number}: {what}"));
        } else if is_ack_wrong {
            let what = format!("client {number} said {:?}, and reads {reply}", connect.ack);
            self.violate("seqs", what);
        } else if is_pause_forgotten || reply.says_to("handshake") {
            self.violate("advice", format!("client {number} pauses, and reads {reply}"));
        }
        if interval > 0 { interval * MILLI } else { self.pause_between_polls(number) }
    }

    /// An answer without a session, or of one that can have no other connection now.
    pub(super) fn hear_refusal(&mut self, number: ClientNumber, reply: &Reply, connect: &Connect) -> u64 {
        let code = reply.code().unwrap_or_default();
        let session = self.clients[number as usize].session().unwrap_or_default().to_owned();
        match code {
            "402" | "403" => self.check_session_may_be_lost(&session, connect.is_future),
            "400" if connect.is_future && reply.says_to("handshake") => {}
            "503" if reply.interval().is_some() => {
                if let Some(page) =
                    self.clients[number as usize].bayeux.as_mut().and_then(|it| it.page.as_mut())
                {
                    return page.pause(reply.interval()) * MILLI;
                }
            }
            _ => self.violate("replies", format!("client {number} reads {reply}")),
        }
        self.clients[number as usize].forget_bayeux();
        reply.interval().unwrap_or_default() * MILLI + MILLI
    }

    /// It may go on from here.
    pub(super) fn remember_page_of_bayeux(&mut self, number: ClientNumber) {
        let Some(bayeux) = &mut self.clients[number as usize].bayeux else { return };
        let is_certain = |page: &&super::Page| {
            page.acknowledges && !page.logs.iter().any(|it| matches!(it, Following::Asked(..)))
        };
        if let Some(page) = bayeux.page.as_ref().filter(is_certain)
            && bayeux.snapshots.len() < MOST_SNAPSHOTS
        {
            let mut page = page.clone();
            page.has_gone_back = true;
            // A page that is loaded anew does not remember it.
            page.pause(Some(0));
            bayeux.snapshots.push(page);
        }
    }
}

impl crate::client::Client {
    fn forget_bayeux(&mut self) {
        if let Some(bayeux) = &mut self.bayeux {
            bayeux.forget_session();
        }
    }
}
