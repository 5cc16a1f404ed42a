//! The other schemes of the literature, behind the trait of [`TimingWheel`](crate::TimingWheel): to compare with, to learn
//! from, and for those whose load fits one of them better.
