//! Assembly of the shared services from the configuration.

use std::sync::Arc;

use crossbeam_channel::Receiver;
use encke_base::entropy::Entropy;
use encke_base::executor::Executor;
use encke_base::trace::Tracer;
use encke_broker::channel::Namespaces;
use encke_broker::engine::{LogEngine, MemoryEngine, RedisEngine, SharedUsers};
use encke_timeouts::{ExpiryBatch, Timeouts};
use tokio_util::sync::CancellationToken;

use crate::admin::live::{LimitSettings, Live, LiveSettings, WebhookLimit};
use crate::admin::{self, BusiestCache, LogLinesDropped, PublicListener, TimerSettings};
use crate::admission::{
    DescriptorLimit, Handshakes, OpenConnections, PartialMessages, Permits, RateLimiters, Refusals,
    SignatureLimit,
};
use crate::auth::Revocations;
use crate::backend::Backend;
use crate::client::{self, Access, ClientSettings, PresenceReplies, SharedLimits};
use crate::config::{Config, EngineConfig, RedisSettings};
use crate::events::{SharedUserSink, Sinks};
use crate::issuer::Issuer;
use crate::public::{self, BayeuxEndpoint};
use crate::reminders::Reminders;
use crate::session::{
    Channels, OnlineUsers, SessionLimits, SessionLogs, SessionRef, SessionTable, Sessions, SharedSessions,
    TableLimits,
};

/// Creates the channels, the sessions, and the other services shared by client connections.
pub(crate) fn client_services(
    config: &Config,
    timeouts: Arc<Timeouts>,
    entropy: Entropy,
    executor: Arc<dyn Executor>,
    sinks: impl Into<Sinks>,
) -> client::Services {
    let (engine_entropy, engine_executor) = (entropy.clone(), Arc::clone(&executor));
    let mut sinks: Sinks = sinks.into();
    let user_events = sinks.shared_users.take().filter(|_| matches!(config.engine, EngineConfig::Redis(_)));
    let shared_users = user_events.map(|events| SharedUsers::new(events, config.session.reconnect_window));
    if let Some(users) = &shared_users {
        sinks.users = Some(Arc::new(SharedUserSink(Arc::clone(users))));
    }
    let engine_users = shared_users.clone();
    let (mut health, mut directory) = (None, None);
    let (shared_executor, shared_timeouts) = (Arc::clone(&executor), Arc::clone(&timeouts));
    let mut client =
        client_services_on(config, timeouts, entropy, executor, sinks, |memory| match &config.engine {
            EngineConfig::Memory => Arc::new(memory),
            EngineConfig::Redis(settings) => {
                let MemoryEngine { channels, timeouts } = memory;
                let settings = RedisSettings::clone(settings);
                let redis = RedisEngine::start(
                    settings,
                    channels,
                    timeouts,
                    engine_entropy,
                    &engine_executor,
                    engine_users,
                    config.share_sessions.then_some(config.session.reconnect_window),
                );
                (health, directory) = (Some(redis.health()), redis.directory());
                Arc::new(redis)
            }
        });
    client.engine_health = health;
    client.shared_users = shared_users;
    client.shared_sessions = directory.map(|directory| {
        SharedSessions::start(
            &client.sessions,
            directory,
            Arc::clone(&client.metrics),
            shared_timeouts,
            shared_executor,
        )
    });
    client
}

/// Like [`client_services`], but with an engine that is built on the memory engine.
pub(crate) fn client_services_on(
    config: &Config,
    timeouts: Arc<Timeouts>,
    entropy: Entropy,
    executor: Arc<dyn Executor>,
    sinks: impl Into<Sinks>,
    engine: impl FnOnce(MemoryEngine<SessionRef>) -> Arc<dyn LogEngine<SessionRef>>,
) -> client::Services {
    let limits = &config.limits;
    let Sinks { metrics, sessions: events, channels: occupancy, users, reminders: webhooks, .. } =
        sinks.into();
    let channels = Channels::new(
        Arc::new(SessionTable::new(TableLimits {
            sessions: limits.max_sessions,
            slots: limits.session_slots(),
        })),
        limits.max_channels,
        limits.max_channels_per_user,
        Arc::new(Namespaces::new(config.channel.log.clone(), config.channel.namespaces.clone())),
        Arc::clone(&timeouts),
        Arc::clone(&metrics),
        entropy.clone(),
        Arc::clone(&executor),
    );
    let channels = Arc::new(channels.with_occupancy(occupancy));
    let memory = MemoryEngine { channels: Arc::clone(&channels), timeouts: Arc::clone(&timeouts) };
    let logs = SessionLogs { engine: engine(memory), channels };
    let sessions = Sessions::new(
        SessionLimits {
            unacked: config.max_unacked,
            subscriptions: limits.max_subscriptions,
            joins_per_minute: limits.joins_per_minute,
        },
        Revocations::new(config.auth.max_token_lifetime),
        Arc::clone(&timeouts),
        config.session.clone(),
        logs.clone(),
        Arc::clone(&metrics),
        entropy.clone(),
        Arc::clone(&executor),
        events,
        users.map(|sink| OnlineUsers::new(sink, config.offline_after)),
        config.share_sessions.then(Arc::default),
    );
    let reminders = Arc::new(Reminders::new(
        limits.max_reminders,
        Arc::clone(&timeouts),
        Arc::clone(&logs.engine),
        webhooks,
        Arc::clone(&metrics),
        Arc::clone(&executor),
    ));
    let backend = config.backend.clone().map(|settings| {
        let (metrics, timeouts) = (Arc::clone(&metrics.backend), Arc::clone(&timeouts));
        Arc::new(Backend::new(settings, metrics, timeouts, entropy.clone(), executor))
    });
    let issuer = config.issuer.clone().zip(config.auth.key_set.clone()).map(|(settings, keys)| {
        let (metrics, timeouts) = (Arc::clone(&metrics), Arc::clone(&timeouts));
        Arc::new(Issuer::new(settings, keys, metrics, timeouts, entropy.clone()))
    });
    let tracer = config
        .trace
        .clone()
        .and_then(|settings| Tracer::new(settings, (&config.engine).into(), &timeouts, &entropy, &metrics));
    client::Services {
        limits: SharedLimits {
            permits: Permits::new(
                limits.max_connections.min(limits.descriptors.connections),
                limits.max_connections_per_address,
            ),
            descriptors: DescriptorLimit::new(limits.descriptors.connections),
            user_rates: RateLimiters::new(limits.user_commands_per_second),
            anonymous_rates: RateLimiters::new(limits.anonymous_commands_per_second_per_address),
            signatures: SignatureLimit::new(limits.bad_signatures_per_second),
            session_rates: RateLimiters::new(limits.sessions_per_second_per_address),
            partial_messages: PartialMessages::new(limits.receive_total),
            refusals: Refusals::new(Arc::clone(&metrics), Arc::clone(&timeouts)),
        },
        presence_replies: PresenceReplies::default(),
        access: Access { auth: Arc::clone(&config.auth), issuer, backend },
        timeouts,
        sessions,
        logs,
        reminders,
        engine_health: None,
        shared_users: None,
        shared_sessions: None,
        tracer,
        metrics,
        entropy,
        parking: None,
        settings: ClientSettings {
            channel_name_bytes: config.channel.name_bytes,
            max_subscriptions: limits.max_subscriptions,
            commands_per_second: limits.commands_per_second,
            frames_per_second: limits.frames_per_second,
            max_message: limits.max_message,
            write_timeout: config.write_timeout,
            keep_alive_timeout: limits.keep_alive_timeout,
            min_read_rate: limits.slowest_reader,
            close_timeout: config.close_timeout,
        },
    }
}

/// Creates the shared state of the public listener's connections.
pub(crate) fn public(
    config: &Config,
    client: Arc<client::Services>,
    stop: CancellationToken,
) -> public::Context {
    let limit = config.limits.max_connections_per_address;
    public::Context {
        client,
        proxies: config.proxies.clone(),
        tls: config.tls.clone(),
        handshake_timeout: config.limits.handshake_timeout,
        sockets: (limit != usize::MAX).then(|| Permits::new(usize::MAX, sockets_per_address(limit))),
        bayeux: BayeuxEndpoint::new(
            config.bayeux.path.clone(),
            config.bayeux.polls_per_browser,
            config.bayeux.callback_polling,
        ),
        handshakes: Handshakes::new(config.limits.max_handshakes, limit != usize::MAX),
        connections: OpenConnections::default(),
        stop,
    }
}

/// Creates the shared state of the admin listener's handlers.
pub(crate) fn admin(
    config: &Config,
    public: &public::Context,
    public_port: u16,
    batches: Receiver<ExpiryBatch>,
    log_lines_dropped: LogLinesDropped,
) -> admin::Context {
    let timers = &config.timers;
    let clock = public.client.timeouts.clock();
    admin::Context {
        live: Live::new(LiveSettings { started_at: clock.unix_now(), bounds: bounds(config) }),
        client: Arc::clone(&public.client),
        public: PublicListener {
            url: config.public_url.clone(),
            port: public_port,
            has_tls: config.tls.is_some(),
        },
        handshakes: Arc::clone(&public.handshakes),
        timers: TimerSettings {
            scheme: timers.scheme,
            tick: timers.tick,
            workers: timers.workers,
            watchdog: timers.watchdog,
        },
        tls: config.tls.clone().filter(|_| config.tls_for_admin),
        admin_connections: Handshakes::without_grace(config.limits.max_admin_connections),
        handshake_timeout: config.limits.handshake_timeout,
        batches,
        log_lines_dropped,
        busiest: BusiestCache::default(),
        stop: public.stop.clone(),
    }
}

/// Returns the limits whose usage is shown in the dashboard.
fn bounds(config: &Config) -> LimitSettings {
    let limits = &config.limits;
    let webhooks = config.webhooks.iter().map(|webhook| WebhookLimit {
        name: Arc::clone(&webhook.name),
        key: format!("webhook[{}].max_queued", webhook.name),
        max_queued: webhook.max_queued,
    });
    LimitSettings {
        max_connections: limits.max_connections,
        max_handshakes: limits.max_handshakes,
        max_sessions: limits.max_sessions,
        max_channels: limits.max_channels,
        max_reminders: limits.max_reminders,
        max_admin_connections: limits.max_admin_connections,
        receive_total: limits.receive_total,
        history_total_bytes: config.channel.log.total_bytes,
        backend_max_in_flight: config.backend.as_ref().map_or(usize::MAX, |backend| backend.max_in_flight),
        webhooks: webhooks.collect(),
    }
}

/// Returns the number of sockets for an address that may have this many connections. It is twice as many,
/// because the successor of a connection may be opening while the connection closes, and some more, because a
/// client over the limit must receive the refusal before it is disconnected.
fn sockets_per_address(connections: usize) -> usize {
    const IN_HANDSHAKE: usize = 16;
    connections.saturating_mul(2).saturating_add(IN_HANDSHAKE)
}
