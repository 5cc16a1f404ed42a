/// Period of a session's ownership. Each change of owner begins a later one. Terms are ordered by generation first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term {
    /// Generation of the directory's data set. Each failover starts a new one, because it may lose the newest
    /// operations, and with them the newest numbers.
    pub generation: u64,
    /// Number of owners so far.
    pub number: u64,
}

impl Term {
    /// Term of a session's first owner.
    #[must_use]
    pub const fn first(generation: u64) -> Self {
        Self { generation, number: 1 }
    }

    /// Term of the next owner, in the current generation of the directory.
    #[must_use]
    pub const fn next(self, generation: u64) -> Self {
        Self { generation, number: self.number + 1 }
    }
}
