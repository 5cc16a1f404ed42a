//! Restarts the server.

use std::path::PathBuf;

use encke_client::AdminUrl;

use crate::args;
use crate::process::{Service, run_shell};
use crate::scenario::Setup;

#[derive(Debug)]
pub(super) enum ServerOperator {
    /// The server is a child of this process.
    Supervised(Service),
    /// The server has another supervisor, and this command restarts it.
    External { command: String, log: Option<PathBuf> },
}

impl ServerOperator {
    /// Starts the server if it is to run as a child.
    pub(super) async fn open(options: &args::RestartOptions, setup: &Setup) -> Result<Self, String> {
        let log = options.server_log.clone();
        let Some(command) = &options.start else {
            return Ok(Self::External { command: options.restart.clone().unwrap_or_default(), log });
        };
        let admin = setup.load.server.cost.admin.as_ref().map(AdminUrl::address);
        let mut service = Service::open(command, setup.dialer.server(), admin, log.as_deref())?;
        service.start().map_err(|error| format!("--start: {error}"))?;
        Ok(Self::Supervised(service))
    }

    /// Restarts the server. Returns when the new process has been started. `ended` is called when the old
    /// process has exited, or when the restart command has finished.
    pub(super) async fn restart(&mut self, ended: impl FnOnce()) -> Result<(), String> {
        match self {
            Self::Supervised(service) => {
                let status = service.stop().await.map_err(|error| error.to_string())?;
                ended();
                if !status.success() {
                    return Err(format!("the server ended with {status}"));
                }
                service.start().map_err(|error| error.to_string())
            }
            Self::External { command, log } => {
                let status = run_shell(command, log.as_deref()).await?;
                ended();
                if status.success() { Ok(()) } else { Err(format!("--restart: {status}")) }
            }
        }
    }

    /// Stops the server if it is a child.
    pub(super) async fn end(self) {
        if let Self::Supervised(mut service) = self {
            // The run is over, so the exit status does not matter.
            let _ = service.stop().await;
        }
    }
}
