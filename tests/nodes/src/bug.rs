/// A bug that the model must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Bug {
    /// The directory does not compare terms.
    NoFence,
    /// A failover does not start a new generation.
    SameGenerationAfterFailover,
    /// Leases use a clock that stops while the process is suspended.
    LeaseHidesStalls,
    /// Batches are sent before they are journalled.
    JournalAfterSending,
    /// A node serves its suspended session again without claiming it.
    ResumeWithoutClaim,
    /// A node that was cut off does not verify its sessions.
    NoVerification,
}
