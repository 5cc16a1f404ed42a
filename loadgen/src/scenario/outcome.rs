//! The counts and times of each scenario, as part of the result.

use serde::{Deserialize, Serialize};

use super::expire::ExpireOutcome;
use super::hold::HoldOutcome;
use super::late::LateOutcome;
use super::mute::MuteOutcome;
use super::storm::StormOutcome;
use super::takeover::TakeoverOutcome;
use super::vanish::VanishOutcome;
use crate::result::{Group, Sum};

/// Declares the outcomes of the scenarios that can be spread over several processes.
macro_rules! outcomes {
    ($($scenario:ident($outcome:ty),)*) => {
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub(crate) enum ScenarioOutcome {
            $($scenario($outcome),)*
            /// Outcome of a scenario that runs in one process.
            Single(Group),
        }

        impl ScenarioOutcome {
            pub(crate) fn to_group(&self) -> Group {
                match self {
                    $(Self::$scenario(outcome) => Group::of(outcome),)*
                    Self::Single(group) => group.clone(),
                }
            }
        }

        impl Sum for ScenarioOutcome {
            fn add(&mut self, other: Self) {
                match (self, other) {
                    $((Self::$scenario(sum), Self::$scenario(other)) => sum.add(other),)*
                    _ => panic!("all processes run the same scenario, which supports several processes"),
                }
            }
        }
    };
}

outcomes! {
    Expire(ExpireOutcome),
    Hold(HoldOutcome),
    Late(LateOutcome),
    Mute(MuteOutcome),
    Storm(StormOutcome),
    Takeover(TakeoverOutcome),
    Vanish(VanishOutcome),
}
