//! The options that say what of the server is sampled.

use clap::Args;

use crate::target::AdminUrl;

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Sampling {
    /// Sample what this process, the server, takes each second: CPU, resident memory, descriptors, threads
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Server")]
    pub(crate) pid: Option<u32>,
    /// Where Encke's admin listener is, http://host:port: its timers are sampled each second
    #[arg(long, value_name = "URL", help_heading = "Server")]
    pub(crate) admin: Option<AdminUrl>,
    /// The key of the admin listener, if it wants one
    #[arg(long, value_name = "KEY", requires = "admin", help_heading = "Server")]
    pub(crate) api_key: Option<String>,
    /// The admin listener is there to publish, and need not say anything about timers
    #[arg(skip)]
    pub(crate) admin_is_for_publishing: bool,
}
