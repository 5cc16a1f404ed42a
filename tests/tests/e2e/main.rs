//! End-to-end tests: the real binary over real sockets.

// Admin listener: health, metrics, API, and rejection of cross-origin requests.
mod admin;
// Channel API: publish, broadcast, history, presence.
mod admin_channels;
// API keys of the admin listener.
mod api_keys;
// Hook requests to the backend.
mod hooks;
// API requests of the backend about sessions and users.
mod backend;
// Bayeux: stock clients, and the protocol byte by byte.
mod bayeux;
// Bayeux requests that no stock client sends.
mod bayeux_attacks;
// The browser example of the README, in Chromium.
mod browser;
// Channels: subscribing, publishing, history and its limits.
mod channels;
// Valid and invalid commands.
mod commands;
// Layers of the configuration, and rejected settings.
mod config;
// A stream that is cut at random bytes and resumed without loss.
mod cuts;
// The dashboard, in Chromium.
mod dashboard;
// Exhaustion of file descriptors, and recovery.
mod descriptors;
// Links in the documents.
mod documents;
// Drain after SIGTERM: goaway, close, exit.
mod drain;
// Ends of sessions: by command, lifetime, idleness.
mod ending;
// Chat example in tests/example: a page and a backend, and failures of both.
mod example;
// EventSource implementations of others.
mod event_source;
// Frames that RFC 6455 forbids, and connections that break.
mod frames;
// Connections that are lost without any sign from the network.
mod half_open;
// Man pages and completions.
mod generate;
// Slow, incomplete and invalid handshakes.
mod handshake;
// The `healthcheck` command.
mod healthcheck;
// Tests that load the machine, one at a time.
mod heavy;
// Pings, pongs and their timing.
mod heartbeat;
// Joins and leaves in namespaces with `join_leave`.
mod join_leave;
// Requests that are read after their client has disconnected and reconnected.
mod late_requests;
// Token keys that an issuer publishes.
mod key_set;
// Limits on connections and sessions.
mod limits;
// Live stream for the dashboard.
mod live;
// Log lines, and secrets that must not be in them.
mod logs;
// Return of free memory to the kernel.
mod memory;
// Clients that stop answering pings.
mod mute;
// The admin API, checked against its own description.
mod openapi;
// Namespaces: rules for channels with a common prefix.
mod namespaces;
// Pattern subscriptions.
mod patterns;
// The npm package: its served files, and the client's behaviour.
mod package;
// Files of the dashboard, and the permissions of its page.
mod dashboard_files;
// Long-polling.
mod poll;
// Prometheus: metrics, alerts, panels, and the metrics reference.
mod prometheus;
// Proxies in front of the server: simulated ones, and nginx and HAProxy with the documented configurations.
mod proxies;
// Publishes with a key, which may be repeated.
mod publish_keys;
// Redis as the engine.
mod redis;
// Reminders that the backend schedules.
mod reminders;
// Refused clients, commands and settings, and how refusals are reported.
mod refusals;
// Parked connections.
mod parking;
// Messages that are sent again after a disconnect, and messages that need not be.
mod replay;
// Sessions that survive a restart of the server.
mod restart;
// The hello, and resuming.
mod resume;
// The same timeouts with every timer scheme.
mod schemes;
// Clients that do not read.
mod slow_consumer;
// Slow links, and links that are cut.
mod slow_links;
// Server-sent events.
mod sse;
// Two connections with one resume token.
mod take_over;
// systemd: inherited sockets and notifications.
mod systemd;
// Timelines of sessions.
mod timeline;
// TLS, and replacement of certificates.
mod tls;
// The `token` command, for trying things out.
mod token;
// Client tokens: who gets a session, and its permissions.
mod tokens;
// OpenTelemetry traces of publishes.
mod traces;
// User who published a message.
mod users;
// Jumps of the wall clock.
mod wall_clock;
// Webhooks.
mod webhooks;
