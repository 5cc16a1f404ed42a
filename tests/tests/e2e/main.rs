//! End-to-end tests: the real binary over real sockets.

// Admin listener: health, metrics, API, and refusal of cross-origin requests.
mod admin;
// Channel API: publish, broadcast, history, presence.
mod admin_channels;
// API keys of the admin listener.
mod api_keys;
// Hook requests to the backend.
mod hooks;
// The backend's API requests about sessions and users.
mod backend;
// Bayeux: stock clients, and the protocol byte by byte.
mod bayeux;
// Bayeux requests that no stock client sends.
mod bayeux_attacks;
// The documents' client by hand, in Chromium.
mod browser;
// Channels: subscribing, publishing, history and its limits.
mod channels;
// Valid and invalid commands.
mod commands;
// Layers of the configuration, and rejected settings.
mod config;
// A stream that is cut at random bytes and resumed without loss.
mod cuts;
// The dashboard in Chromium.
mod dashboard;
// The histogram of delivery times.
mod delivery_times;
// Exhaustion of file descriptors and recovery.
mod descriptors;
// Links in the documents.
mod documents;
// Drain after SIGTERM: goaway, close, exit.
mod drain;
// Sessions that end by command, lifetime or idleness.
mod ending;
// The chat in tests/example: a page and a backend, and failures of both.
mod example;
// Third-party EventSource implementations.
mod event_source;
// Frames that RFC 6455 forbids, and connections that break.
mod frames;
// Connections that are lost without notice from the network.
mod half_open;
// Slow, incomplete and invalid handshakes.
mod handshake;
// The `healthcheck` command.
mod healthcheck;
// Tests that put load on the machine, run one at a time.
mod heavy;
// Pings, pongs and their timing.
mod heartbeat;
// The command `history`.
mod history;
// HTTP itself: headers of all responses, and clients with special requests.
mod http;
// Joins and leaves in namespaces with `join_leave`.
mod join_leave;
// The order of a session's connections.
mod arrival_order;
// Requests that are read after their client has disconnected and reconnected.
mod late_requests;
// Token keys that an issuer publishes.
mod key_set;
// Limits on connections and sessions.
mod limits;
// The dashboard's live stream.
mod live;
// Log lines, and secrets that must not be in them.
mod logs;
// The admin API, checked against its own description.
mod openapi;
// Certificates of the servers that the server under test connects to, except Redis.
mod outbound_tls;
// Namespaces: rules for channels with a common prefix.
mod namespaces;
// Pattern subscriptions.
mod patterns;
// The npm package: its served files, and the client's behaviour.
mod package;
// The dashboard's files and their security headers.
mod dashboard_files;
// Long-polling.
mod poll;
// Prometheus: metrics, alerts, panels, and the metrics reference.
mod prometheus;
// Proxies in front of the server: simulated ones, and nginx and HAProxy with the documented configurations.
mod proxies;
// Publishes with an idempotency key, which may be repeated.
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
// The tokens that a request needs to use a session, on each transport.
mod resume_tokens;
// The hello, resuming, and two connections with one resume token.
mod resume;
// The same timeout tests with every timer scheme.
mod schemes;
// Clients that do not read, and memory that is returned to the kernel.
mod slow_consumer;
// Slow links, and links that are cut.
mod slow_links;
// Server-sent events.
mod sse;
// systemd: inherited sockets and notifications.
mod systemd;
// Timelines of sessions.
mod timeline;
// TLS, and replacement of certificates.
mod tls;
// The `token` command, which issues tokens for trying things out.
mod token;
// Client tokens: admission of sessions, and their permissions.
mod tokens;
// OpenTelemetry traces of publishes.
mod traces;
// Users in messages, in presence and in the admin API.
mod users;
// Jumps of the wall clock.
mod wall_clock;
// Webhooks.
mod webhooks;
