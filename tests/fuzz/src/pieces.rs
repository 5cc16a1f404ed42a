/// Splits bytes into the pieces in which they arrive on a connection. `how` is 0 for a single piece, 1 for
/// single bytes, and otherwise the seed of random pieces of up to 40 bytes.
pub(crate) fn cut(bytes: &[u8], how: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    let mut random = u32::from(how);
    std::iter::from_fn(move || {
        let longest = match how {
            0 => usize::MAX,
            1 => 1,
            _ => {
                // The generator from Numerical Recipes. Any other would do.
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                1 + (random >> 24) as usize % 40
            }
        };
        let (piece, after) = rest.split_at(longest.min(rest.len()));
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}
