//! The only timer scheme in a build without the feature `schemes`.

use encke_wheel::{Owners, Tick};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use strum::{Display, EnumCount, VariantArray};

use super::TimersVisitor;

/// Timer scheme of the wheel thread (`timers.scheme`), displayed by its name in the configuration.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq, EnumCount, Serialize, VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum TimerScheme {
    /// [`Owners`]
    Hierarchical,
}

impl TimerScheme {
    /// Creates timers that start at tick `now`, and passes them to `user`.
    pub(crate) fn timers<T: Send + 'static, U: TimersVisitor<T>>(self, now: Tick, user: U) -> U::Output {
        match self {
            Self::Hierarchical => user.visit(Owners::new(now)),
        }
    }
}

impl<'de> Deserialize<'de> for TimerScheme {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        if name == Self::Hierarchical.to_string() {
            return Ok(Self::Hierarchical);
        }
        Err(D::Error::custom(format!("`{name}`: this build has only `{}`", Self::Hierarchical)))
    }
}
