//! Selects a share of the connections, spread evenly.

/// Returns whether the connection with this index belongs to the share. Of the first n connections, n * share
/// do, rounded down.
pub(super) fn is_chosen(index: u32, share: f64) -> bool {
    (f64::from(index) + 1.0) * share >= (f64::from(index) * share).floor() + 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_spread_evenly() {
        for (share, chosen_of_10) in [(1.0, 10), (0.5, 5), (0.25, 2), (0.05, 0), (0.0, 0)] {
            let chosen = (0..10).filter(|index| is_chosen(*index, share)).count();
            assert_eq!(chosen, chosen_of_10, "{share}");
        }
        assert!(!is_chosen(0, 0.5) && is_chosen(1, 0.5));
    }
}
