//! How the server is restarted.

use std::path::PathBuf;

use crate::args;
use crate::process::{Service, run_shell};
use crate::scenario::Setup;

#[derive(Debug)]
pub(super) enum Operator {
    /// The server is a child of this process.
    Supervises(Service),
    /// It is someone else's, who is asked by a command.
    Asks { command: String, log: Option<PathBuf> },
}

impl Operator {
    /// Starts the server, if it is to be a child.
    pub(super) async fn open(options: &args::Restart, setup: &Setup) -> Result<Self, String> {
        let log = options.server_log.clone();
        let Some(command) = &options.start else {
            return Ok(Self::Asks { command: options.restart.clone().unwrap_or_default(), log });
        };
        let admin = setup.load.server.cost.admin.as_ref().map(|url| url.authority());
        let mut service = Service::open(command, setup.dialer.server(), admin, log.as_deref())?;
        service.start().map_err(|error| format!("--start: {error}"))?;
        Ok(Self::Supervises(service))
    }

    /// Returns when the next process has been started. `ended` is called when the one before has ended, as far as that is known.
    pub(super) async fn restart(&mut self, ended: impl FnOnce()) -> Result<(), String> {
        match self {
            Self::Supervises(service) => {
                let status = service.stop().await.map_err(|error| error.to_string())?;
                ended();
                if !status.success() {
                    return Err(format!("it ended with {status}"));
                }
                service.start().map_err(|error| error.to_string())
            }
            Self::Asks { command, log } => {
                let status = run_shell(command, log.as_deref()).await?;
                ended();
                if status.success() { Ok(()) } else { Err(format!("--restart: {status}")) }
            }
        }
    }

    /// Ends the server, if it is a child.
    pub(super) async fn end(self) {
        if let Self::Supervises(mut service) = self {
            // How it ends is no part of the run, which is over.
            let _ = service.stop().await;
        }
    }
}
