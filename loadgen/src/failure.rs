//! Why connections could not be opened: counted by kind, and the first of each kind told.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::rc::Rc;

use nix::errno::Errno;

use crate::http_head::NotHttp;
use crate::progress::Log;
use crate::record::Counter;
use crate::websocket::{BadUpgrade, End};

/// More kinds than these are counted, but no longer told.
const MAX_LINES: usize = 20;

/// Why a connection could not be opened, a session not resumed, or a command not carried out.
#[derive(Debug)]
pub(crate) enum Failure {
    /// No connection, or it broke before the upgrade was done.
    Connect(io::Error),
    /// The upgrade was answered by this HTTP status.
    Refused(u16),
    NotHttp(NotHttp),
    /// What the server answered is no upgrade.
    Upgrade(BadUpgrade),
    /// The connection ended like this before it said hello.
    ClosedBeforeHello(End),
    /// The first message was something else.
    NoHello,
    /// The server has refused the session, and said this of it.
    Unwelcome(String),
    /// The response is no stream of events.
    NoEventStream,
    Timeout,
    /// The hello was that of a new session.
    NotRecovered,
    /// The channel was not subscribed to: by this code.
    Subscribe(String),
    /// A message was not published: by this code.
    Publish(String),
    /// The publisher's connection broke.
    PublisherGone(String),
}

impl Failure {
    /// The name under which it is counted.
    fn kind(&self) -> String {
        match self {
            Self::Connect(error) => connect_kind(error).to_owned(),
            Self::Refused(status) => format!("http_{status}"),
            Self::NotHttp(_) => "not_http".to_owned(),
            Self::Upgrade(_) => "upgrade".to_owned(),
            Self::ClosedBeforeHello(end) => kind_of_end(*end),
            Self::NoHello => "no_hello".to_owned(),
            Self::Unwelcome(_) => "unwelcome".to_owned(),
            Self::NoEventStream => "no_event_stream".to_owned(),
            Self::Timeout => "timeout".to_owned(),
            Self::NotRecovered => "not_recovered".to_owned(),
            Self::Subscribe(code) => format!("subscribe_{code}"),
            Self::Publish(code) => format!("publish_{code}"),
            Self::PublisherGone(_) => "publisher_gone".to_owned(),
        }
    }
}

/// The name under which the end of a connection is counted, where it made something fail.
pub(crate) fn kind_of_end(end: End) -> String {
    match end {
        End::Fault(fault) => format!("frame_{}", fault.name()),
        End::Closed(_) | End::Cut => format!("closed_{}", end.code()),
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Connect(error)
    }
}

impl From<NotHttp> for Failure {
    fn from(error: NotHttp) -> Self {
        Self::NotHttp(error)
    }
}

fn connect_kind(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "refused",
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => "reset",
        io::ErrorKind::UnexpectedEof => "eof",
        io::ErrorKind::TimedOut => "timed_out",
        io::ErrorKind::AddrNotAvailable => "no_source_port",
        _ if error.raw_os_error() == Some(Errno::EMFILE as i32) => "too_many_files",
        _ => "io",
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => write!(f, "{error}"),
            Self::Refused(status) => write!(f, "refused with status {status}"),
            Self::NotHttp(error) => write!(f, "{error}"),
            Self::Upgrade(error) => write!(f, "the upgrade failed: {error}"),
            Self::ClosedBeforeHello(end) => write!(f, "{end} before the hello"),
            Self::Unwelcome(why) => write!(f, "the session was refused: {why}"),
            Self::NoEventStream => write!(f, "the response is no text/event-stream"),
            Self::NoHello => write!(f, "the first message is no hello"),
            Self::Timeout => write!(f, "no hello within the connect timeout"),
            Self::NotRecovered => write!(f, "a new session in place of the resumed one"),
            Self::Subscribe(code) => write!(f, "the subscription failed: {code}"),
            Self::Publish(code) => write!(f, "a message was not published: {code}"),
            Self::PublisherGone(why) => write!(f, "the publisher's connection broke: {why}"),
        }
    }
}

/// All failures of a run.
#[derive(Debug)]
pub(crate) struct Failures {
    by_kind: RefCell<BTreeMap<String, u64>>,
    count: Counter,
    told: Told,
}

/// Where a failure goes beside the counts.
#[derive(Debug)]
enum Told {
    Log(Log),
    /// To those of the whole, of which these are a part.
    Whole(Rc<Failures>),
}

impl Failures {
    pub(crate) fn new(log: Log) -> Rc<Self> {
        Rc::new(Self { by_kind: RefCell::default(), count: Counter::default(), told: Told::Log(log) })
    }

    /// Failures that count by themselves, and for the whole as well.
    pub(crate) fn within(whole: &Rc<Self>) -> Rc<Self> {
        Rc::new(Self {
            by_kind: RefCell::default(),
            count: Counter::default(),
            told: Told::Whole(Rc::clone(whole)),
        })
    }

    pub(crate) fn record(&self, failure: &Failure) {
        let mut by_kind = self.by_kind.borrow_mut();
        let kind = failure.kind();
        match &self.told {
            Told::Whole(whole) => whole.record(failure),
            Told::Log(log) if !by_kind.contains_key(&kind) && by_kind.len() < MAX_LINES => {
                log.line(&format!("first error of its kind ({kind}): {failure}"));
            }
            Told::Log(_) => {}
        }
        *by_kind.entry(kind).or_default() += 1;
        self.count.increment();
    }

    pub(crate) fn total(&self) -> u64 {
        self.count.get()
    }

    /// The total, which goes on growing.
    pub(crate) fn count(&self) -> &Counter {
        &self.count
    }

    pub(crate) fn by_kind(&self) -> BTreeMap<String, u64> {
        self.by_kind.borrow().clone()
    }
}
