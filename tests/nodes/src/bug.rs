/// A bug that the model must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Bug {
    /// The directory does not compare terms.
    NoFence,
    /// Generations follow the process of the directory instead of its data set.
    SameGenerationAfterFailover,
    /// Leases count on a clock that stands still while the process is suspended.
    LeaseHidesStalls,
    /// Batches are sent before they are journalled.
    JournalAfterSending,
    /// A node serves its suspended session again without claiming it.
    ResumeWithoutClaim,
    /// A node that was cut off does not verify its sessions.
    NoVerification,
}
