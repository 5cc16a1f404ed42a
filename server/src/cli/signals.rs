//! Signals of the running server.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use tokio_util::sync::CancellationToken;

/// Signals received so far. SIGHUP requests a reload. The first SIGTERM or SIGINT requests a shutdown, the
/// second one ends its wait for clients, and the third one terminates the process immediately, with the exit
/// code that shells use for the signal.
pub(super) struct ReceivedSignals {
    reload: Arc<AtomicBool>,
    /// Number of the signal that requested the shutdown; 0 if there was none.
    shutdown: AtomicI32,
    pub(super) hurry: CancellationToken,
    changed: (Sender<()>, Receiver<()>),
}

/// Request that a signal has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalRequest {
    Reload,
    Shutdown(i32),
}

/// Keeps SIGHUP from terminating the process. Opens no file.
///
/// # Errors
/// The I/O error if the handler cannot be registered.
pub(super) fn catch_sighup() -> io::Result<Arc<AtomicBool>> {
    let reload = Arc::default();
    flag::register(SIGHUP, Arc::clone(&reload))?;
    Ok(reload)
}

impl ReceivedSignals {
    /// Handles signals from now on. `reload` is the result of [`catch_sighup`].
    ///
    /// # Errors
    /// The I/O error if the handlers cannot be registered, or their thread cannot be started.
    pub(super) fn watch(reload: Arc<AtomicBool>) -> io::Result<Arc<Self>> {
        // A write beyond `ulimit -f` then fails, instead of terminating the process.
        flag::register(SIGXFSZ, Arc::default())?;
        let exit = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&exit))?;
        }
        let received = Arc::new(Self {
            reload,
            shutdown: AtomicI32::new(0),
            hurry: CancellationToken::new(),
            changed: bounded(1),
        });
        let (mut signals, of_thread) = (Signals::new([SIGTERM, SIGINT, SIGHUP])?, Arc::clone(&received));
        thread::Builder::new().name("encke-signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                of_thread.receive(signal, &exit);
            }
        })?;
        Ok(received)
    }

    fn receive(&self, signal: i32, exit: &AtomicBool) {
        if signal != SIGHUP && self.shutdown.swap(signal, Ordering::AcqRel) != 0 {
            exit.store(true, Ordering::Release);
            self.hurry.cancel();
        }
        // If the channel is full, the receiver has not woken up yet, and will see this signal, too.
        let _ = self.changed.0.try_send(());
    }

    /// Returns the number of the signal that requested the shutdown.
    pub(super) fn shutdown(&self) -> Option<i32> {
        Some(self.shutdown.load(Ordering::Acquire)).filter(|signal| *signal != 0)
    }

    /// Waits for the next request.
    pub(super) fn next(&self) -> SignalRequest {
        loop {
            if let Some(signal) = self.shutdown() {
                return SignalRequest::Shutdown(signal);
            }
            if self.reload.swap(false, Ordering::AcqRel) {
                return SignalRequest::Reload;
            }
            self.changed.1.recv().expect("this holds the sender, too");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_signal_has_its_effect() {
        let (reload, exit) = (Arc::new(AtomicBool::new(true)), AtomicBool::new(false));
        let (shutdown, hurry) = (AtomicI32::new(0), CancellationToken::new());
        let signals = ReceivedSignals { reload, shutdown, hurry, changed: bounded(1) };
        assert_eq!(signals.next(), SignalRequest::Reload, "SIGHUP arrived before signals were watched");
        assert_eq!(signals.shutdown(), None);
        let state = |signal| {
            signals.receive(signal, &exit);
            (signals.next(), signals.hurry.is_cancelled(), exit.load(Ordering::Acquire))
        };
        assert_eq!(state(SIGINT), (SignalRequest::Shutdown(SIGINT), false, false));
        assert_eq!(state(SIGHUP), (SignalRequest::Shutdown(SIGINT), false, false));
        assert_eq!(state(SIGTERM), (SignalRequest::Shutdown(SIGTERM), true, true));
    }
}
