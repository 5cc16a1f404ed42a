//! The scheme of a build without the feature `schemes`.

use encke_wheel::{Owners, Tick};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use strum::{Display, EnumCount, VariantArray};

use super::UseTimers;

/// How the wheel thread keeps its timers: `timers.scheme`. It is displayed by its name there.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq, EnumCount, Serialize, VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Scheme {
    /// [`Owners`]
    Hierarchical,
}

impl Scheme {
    /// Makes timers that stand at `now`.
    pub(in crate::timeouts) fn timers<T: Send + 'static, U: UseTimers<T>>(
        self,
        now: Tick,
        user: U,
    ) -> U::Output {
        match self {
            Self::Hierarchical => user.with(Owners::new(now)),
        }
    }
}

impl<'de> Deserialize<'de> for Scheme {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        if name == Self::Hierarchical.to_string() {
            return Ok(Self::Hierarchical);
        }
        Err(D::Error::custom(format!("`{name}`: this build has only `{}`", Self::Hierarchical)))
    }
}
