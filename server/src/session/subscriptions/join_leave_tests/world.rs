//! Sessions and channels without connections, on simulated time.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use encke_base::entropy::Entropy;
use encke_base::executor::{BoxedTask, Executor};
use encke_broker::channel::{ChannelName, HistoryPart};
use encke_broker::engine::{EngineResponse, LogEngine};
use encke_core::close::CloseReason;
use encke_core::dialect::{DialectName, StartPosition};
use encke_core::message::ContentKind;
use encke_core::session::{ConnectionKind, Heartbeat, Input};
use encke_timeouts::Timeouts;
use encke_timeouts::clock::{Clock, SimulatedTime, UnixTime};
use futures_util::FutureExt;
use parking_lot::Mutex;

use super::super::CommandSource;
use crate::auth::{Grant, Permission};
use crate::client;
use crate::client::slow_engine::{SlowControl, SlowEngine};
use crate::config::Settings;
use crate::events::{HookSink, NoHooks};
use crate::server::assembly;
use crate::session::{Arrival, AttachRequest, Attached, SessionHandle, SessionRequest};

pub(super) const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const NO_STALL: Duration = Duration::from_hours(60 * 24);
pub(super) const JOIN_LEAVE: &str = "namespace=[{prefix='/a/', join_leave=true}]";

/// An executor that polls its tasks only on request.
#[derive(Default)]
pub(super) struct ManualExecutor(Mutex<Vec<BoxedTask>>);

impl std::fmt::Debug for ManualExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ManualExecutor")
    }
}

impl Executor for ManualExecutor {
    fn spawn(&self, task: BoxedTask) {
        self.0.lock().push(task);
    }
}

impl ManualExecutor {
    /// Polls each task once.
    pub(super) fn poll_all(&self) {
        let tasks = std::mem::take(&mut *self.0.lock());
        let mut task_context = TaskContext::from_waker(Waker::noop());
        let pending: Vec<BoxedTask> = tasks
            .into_iter()
            .filter_map(|mut task| task.poll_unpin(&mut task_context).is_pending().then_some(task))
            .collect();
        self.0.lock().extend(pending);
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

pub(super) struct JoinLeaveWorld {
    pub(super) time: Arc<SimulatedTime>,
    pub(super) services: client::Services,
    pub(super) tasks: Arc<ManualExecutor>,
    pub(super) engine: Arc<SlowControl>,
}

impl JoinLeaveWorld {
    pub(super) fn new() -> Self {
        Self::with_limit(0)
    }

    pub(super) fn with_limit(joins_per_minute: u32) -> Self {
        let world = Self::with(&[JOIN_LEAVE, &format!("limits.joins_per_minute={joins_per_minute}")]);
        world.services.sessions.subscriptions.join_leave().start();
        world
    }

    pub(super) fn with(flags: &[&str]) -> Self {
        const SECRET: &str = "auth.secret=0123456789abcdef0123456789abcdef";
        const KEPT: [&str; 3] = ["channel.history_messages=0", "channel.history_age=off", SECRET];
        let flags = flags.iter().chain(&KEPT).map(ToString::to_string).collect();
        let config = Settings { flags, ..Settings::default() }.resolve().expect("valid");
        let time = Arc::new(SimulatedTime::new(UnixTime::from_secs(1_000)));
        let clock = Arc::new(Clock::simulated(Arc::clone(&time), NO_STALL));
        let (timeouts, _) = Timeouts::new(clock, Duration::ZERO, config.limits.session_slots());
        let (tasks, engine) = (Arc::new(ManualExecutor::default()), Arc::new(SlowControl::default()));
        engine.is_open.store(true, Ordering::Relaxed);
        let executor = Arc::clone(&tasks) as Arc<dyn Executor>;
        let events = Box::new(HookSink(Box::new(NoHooks)));
        let slow = |memory| -> Arc<dyn LogEngine<_>> {
            Arc::new(SlowEngine { memory, control: Arc::clone(&engine) })
        };
        let services =
            assembly::client_services_on(&config, timeouts, Entropy::system(), executor, events, slow);
        Self { time, services, tasks, engine }
    }

    pub(super) fn attach(&self, user: &str, allowed: &str, resume: Option<String>) -> Attached {
        let channels = [(allowed.to_owned(), vec![Permission::Subscribe])].into();
        let grant = Grant { sub: user.to_owned(), issued: None, expires: None, channels, join: Vec::new() };
        let token = self.services.access.auth.sign(&grant, None).expect("it can be signed");
        let now = self.services.timeouts.clock().unix_now();
        let identity = self.services.access.auth.identify(Some(&token), now).expect("it was just signed");
        let request = AttachRequest {
            wanted: SessionRequest {
                resume,
                ..SessionRequest::new(ConnectionKind::Stream(Heartbeat::Frame), DialectName::Json)
            },
            identity,
            address: ADDRESS,
            arrival: Arrival::default(),
            has_session: false,
            can_open: true,
        };
        let permit = self.services.limits.permits.take(ADDRESS);
        self.services.sessions.attach(&request, permit, || false).expect("a session")
    }

    pub(super) fn subscribe(&self, session: &SessionHandle, channel: &str) -> bool {
        let source = CommandSource::request(ADDRESS);
        let subscribed = self.services.sessions.subscriptions.subscribe(
            session,
            source,
            &name(channel),
            &StartPosition::Now,
        );
        is_ok(subscribed)
    }

    pub(super) fn unsubscribe(&self, session: &SessionHandle, channel: &str) {
        self.services.sessions.subscriptions.unsubscribe(session, CommandSource::request(ADDRESS), channel);
    }

    pub(super) fn kick(&self, session: &SessionHandle) {
        self.services.sessions.lifecycle.handle(session, Input::Close(CloseReason::Kicked));
    }

    /// Runs the tasks until all notices that can be published have been published.
    pub(super) fn settle(&self) {
        while self.tasks.len() > 0 {
            self.tasks.poll_all();
            self.time.advance(Duration::from_millis(10));
        }
        assert!(self.services.sessions.subscriptions.join_leave().settled().now_or_never().is_some());
    }

    /// Returns the notices in the channel's log, as `+` or `-` and their content.
    pub(super) fn notices(&self, channel: &str) -> Vec<String> {
        let Some(log) = self.services.logs.channels.get(channel) else { return Vec::new() };
        let (_, messages) =
            log.history(HistoryPart::After(0), usize::MAX, self.services.timeouts.clock().now());
        let notices = messages.into_iter().map(|message| {
            assert_eq!(message.user, None, "a notice has no publisher");
            match message.kind {
                ContentKind::Data => message.data,
                ContentKind::Joined => format!("+{}", message.data),
                ContentKind::Left => format!("-{}", message.data),
            }
        });
        notices.collect()
    }

    /// Returns the ids of the sessions that presence lists.
    pub(super) fn present(&self, channel: &str) -> Vec<String> {
        let page = self.services.logs.channels.presence_page(channel, 0, usize::MAX);
        page.members.into_iter().map(|(_, member)| member.id).collect()
    }

    pub(super) fn dropped(&self) -> u64 {
        let text = self.services.metrics.encode(&encke_base::metrics::Readings::default(), &[]);
        let line = text.lines().find_map(|line| line.strip_prefix("encke_join_leave_lost_total "));
        line.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{text}"))
    }
}

pub(super) fn name(text: &str) -> ChannelName {
    ChannelName::new(text, 255).expect("a name")
}

pub(super) fn is_ok<T: Send + 'static, E: Send + 'static>(response: EngineResponse<Result<T, E>>) -> bool {
    response.into_future().now_or_never().expect("the engine answers").is_ok()
}

pub(super) fn line(sign: char, session: &SessionHandle) -> String {
    let user = session.identity().user().map_or(String::new(), |user| format!(r#","user":"{user}""#));
    format!(r#"{sign}{{"session":"{}"{user}}}"#, session.id())
}
