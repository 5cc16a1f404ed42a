//! Arguments of the script for leases, and parsing of its replies.

use redis::{Cmd, Value, from_redis_value};

use super::requests::to_ms;
use crate::engine::directory::{LEASE, LeaseRenewal};
use crate::engine::redis::presence::wire::is_id;

/// Call of the script.
#[derive(Clone, Copy, Debug)]
pub(super) enum LeaseCall {
    Renew,
    End,
}

/// Adds all arguments of a call except the replication id.
pub(super) fn add_arguments(call: &mut Cmd, operation: LeaseCall, server: &str) {
    let word = match operation {
        LeaseCall::Renew => "renew",
        LeaseCall::End => "end",
    };
    call.arg(word).arg(server).arg(to_ms(LEASE));
}

/// Parses the reply to a renewal in this generation. `None` if it is malformed.
pub(super) fn parse_renewal(reply: Value, generation: u64) -> Option<LeaseRenewal> {
    type Fields = (bool, Vec<String>, Vec<String>, u64, u64);
    let (was_held, mut alive, mut dead, unowned, owned): Fields = from_redis_value(reply).ok()?;
    // Anyone with access to Redis may have written something else.
    [&mut alive, &mut dead].into_iter().for_each(|names| names.retain(|name| is_id(name)));
    Some(LeaseRenewal { generation, was_held, alive, dead, unowned, owned })
}

#[cfg(test)]
mod tests {
    use redis::{cmd, parse_redis_value};

    use super::*;

    #[test]
    fn calls_are_encoded() {
        for (operation, word) in [(LeaseCall::Renew, "renew"), (LeaseCall::End, "end")] {
            let mut call = cmd("X");
            add_arguments(&mut call, operation, "n_1");
            assert_eq!(call.get_packed_command(), cmd("X").arg(&[word, "n_1", "10000"]).get_packed_command());
        }
    }

    #[test]
    fn renewals_are_parsed() {
        let parse =
            |text: &str| parse_renewal(parse_redis_value(text.as_bytes()).expect("a reply of Redis"), 7);
        let expected = LeaseRenewal {
            generation: 7,
            was_held: true,
            alive: vec!["n_1".into(), "n_2".into()],
            dead: Vec::new(),
            unowned: 3,
            owned: 5,
        };
        let text = "*5\r\n:1\r\n*2\r\n$3\r\nn_1\r\n$3\r\nn_2\r\n*0\r\n:3\r\n:5\r\n";
        assert_eq!(parse(text), Some(expected.clone()));
        let text = "*5\r\n:1\r\n*3\r\n$3\r\nn_1\r\n$3\r\nn_2\r\n$3\r\nn 1\r\n*0\r\n:3\r\n:5\r\n";
        assert_eq!(parse(text), Some(expected), "an invalid name is ignored");
        for malformed in ["$-1\r\n", "*0\r\n", "*2\r\n:1\r\n*0\r\n", "*5\r\n*0\r\n*0\r\n:1\r\n:1\r\n:1\r\n"] {
            assert_eq!(parse(malformed), None, "{malformed}");
        }
    }
}
