// Restarts during which the sockets stay open.
mod restart;
// Socket activation.
mod sockets;
// Notifications: readiness, reloads, shutdown and the watchdog.
mod notify;
// The units in deploy/.
mod units;
