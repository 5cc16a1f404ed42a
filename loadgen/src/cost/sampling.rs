//! Options that select how the server is sampled.

use clap::Args;

use crate::target::AdminUrl;

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Sampling {
    /// Sample this process, the server, every second: CPU, resident memory, descriptors, threads
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Server")]
    pub(crate) pid: Option<u32>,
    /// Encke's admin listener, http://host:port, whose timers are sampled every second
    #[arg(long, value_name = "URL", help_heading = "Server")]
    pub(crate) admin: Option<AdminUrl>,
    /// Key of the admin listener, if it requires one
    #[arg(long, value_name = "KEY", requires = "admin", help_heading = "Server")]
    pub(crate) api_key: Option<String>,
    /// Whether the admin listener is used for publishing and need not report timers.
    #[arg(skip)]
    pub(crate) admin_is_for_publishing: bool,
}
