//! Responses that the server cannot use. They deny the request, and the log says what is wrong with them.

use encke_base::outbound::excerpt;

/// Problem of a response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub(crate) struct MalformedResponse {
    problem: String,
    /// Whether the problem is that the error's code or message is too long.
    pub(super) is_too_long: bool,
}

impl MalformedResponse {
    /// `problem` may quote the body.
    pub(super) fn new(problem: &str) -> Self {
        Self { problem: excerpt(problem.as_bytes()), is_too_long: false }
    }

    pub(super) fn too_long(problem: &str) -> Self {
        Self { is_too_long: true, ..Self::new(problem) }
    }

    /// Returns the problem without values and positions, so that the same mistake in other responses has the same
    /// cause.
    pub(super) fn cause(&self) -> String {
        let unquoted = self.problem.split('"').step_by(2);
        unquoted.flat_map(str::chars).filter(|c| !c.is_ascii_digit()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_have_no_values_and_no_positions() {
        let cause = |problem: &str| MalformedResponse::new(problem).cause();
        let text =
            |value| format!("`allow`: invalid type: string {value:?}, expected a boolean at line 1 column 9");
        assert_eq!(cause(&text("yes")), cause(&text("definitely")));
        assert_eq!(
            cause("EOF while parsing an object at line 1 column 13"),
            cause("EOF while parsing an object at line 2 column 7")
        );
        assert_ne!(cause("unknown field `chanel`"), cause("unknown field `dta`"));
    }
}
