//! End-to-end tests: the real binary over real sockets.

// The admin listener: health, metrics, the API, guards against web pages.
mod admin;
// The API of channels: publish, broadcast, history, presence.
mod admin_channels;
// Keys of the admin API.
mod api_keys;
// The backend is asked, and called.
mod asks;
// What the backend says: to a session, to a user, of both.
mod backend;
// Bayeux: stock clients, and its rules byte by byte.
mod bayeux;
// Bayeux as no stock client speaks it.
mod bayeux_attacks;
// What the README has for browsers, in one.
mod browser;
// Channels: subscribing, publishing, history and its limits.
mod channels;
// Commands, good and bad.
mod commands;
// Layers of configuration, and what is refused.
mod config;
// A stream cut at any byte, resumed, and whole.
mod cuts;
// The dashboard, in Chromium.
mod dashboard;
// Running out of descriptors, and back.
mod descriptors;
// Links of the documents.
mod documents;
// SIGTERM: goaway, close, exit.
mod drain;
// How sessions end: by command, lifetime, idleness.
mod ending;
// The chat of tests/example: a page, a backend, and what may happen to them.
mod example;
// EventSource as others have built it.
mod event_source;
// Frames that RFC 6455 does not allow, and connections that break.
mod frames;
// A connection that is gone without a word from the network.
mod half_open;
// Man pages and completions.
mod generate;
// Clients that do not finish their request.
mod handshake;
// A server that is asked whether it is well, by itself.
mod healthcheck;
// What loads the machine, one at a time.
mod heavy;
// Pings, pongs and their rhythm.
mod heartbeat;
// Joins and leaves, where the channel's namespace tells them.
mod join_leave;
// Requests that are read when their client is gone, and has come back.
mod late_requests;
// Keys of tokens, as their issuer publishes them.
mod key_set;
// As many connections and sessions as there may be.
mod limits;
// What the dashboard is told each second.
mod live;
// Log lines, and what must not be in them.
mod logs;
// What is free goes back to the kernel.
mod memory;
// Clients that fall silent.
mod mute;
// The admin API held against its own description.
mod openapi;
// Rules for channels whose names begin alike.
mod namespaces;
// Channels by the shape of their names.
mod patterns;
// The client that people install: what is served of it, and what it does.
mod package;
// The dashboard's files, and what its page may do.
mod page;
// Long-polling.
mod poll;
// What Prometheus makes of the metrics, the alarms and the panels; what the reference says of them.
mod prometheus;
// Proxies in front of the server: hand-made ones, and nginx and HAProxy by their recipes.
mod proxies;
// Publishes that may be repeated.
mod publish_keys;
// Channels in Redis.
mod redis;
// What the backend wants done later.
mod reminders;
// Who gets no session, and what is told of it; data and settings that are refused.
mod refusals;
// Connections without a task.
mod rest;
// What a session is sent again after a cut, and what may be forgotten.
mod replay;
// Sessions that outlive the process.
mod restart;
// The hello, and coming back.
mod resume;
// The same timeouts on every scheme of timers.
mod schemes;
// Clients that do not read.
mod slow_consumer;
// Links that are slow, or cut.
mod slow_links;
// Server-sent events.
mod sse;
// Two connections with one token.
mod take_over;
// What systemd hands over, and wants to be told.
mod systemd;
// What has happened to a session.
mod timeline;
// TLS, and the exchange of certificates.
mod tls;
// Tokens for trying things out.
mod token;
// Tokens of clients: who gets a session, and what it may do.
mod tokens;
// Traces of publishes, by OpenTelemetry.
mod traces;
// Which user has published a message.
mod users;
// The wall clock jumps.
mod wall_clock;
// Webhooks: a backend that is told what happens.
mod webhooks;
