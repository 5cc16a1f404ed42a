// A restart with sockets that stay open.
mod restart;
// Sockets that were open before the server began.
mod sockets;
// Readiness, reloads, the end, and the watchdog.
mod notify;
// The units in deploy/.
mod units;
