//! Options of `churn`: connections that open and close at random.

use std::str::FromStr;
use std::time::Duration;

use clap::Args as ClapArgs;
use rand::Rng;
use rand_distr::{Distribution, Exp, Pareto};

use super::load::{Load, ServerOptions};
use super::number::{parse_duration, parse_interval, parse_rate};

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct ChurnOptions {
    #[command(flatten)]
    pub(super) server: ServerOptions,
    /// Average number of connections that arrive per second, each independent of the others (a Poisson
    /// process)
    #[arg(long, value_name = "R", default_value = "100", value_parser = parse_rate)]
    pub(crate) rate: f64,
    /// Length of time during which connections arrive, like "60s"
    #[arg(long, value_name = "D", default_value = "30s", value_parser = parse_duration)]
    duration: Duration,
    /// Distribution of how long a connection stays open: fixed:MEAN, exp:MEAN, or pareto:SHORTEST:SHAPE
    #[arg(long, value_name = "DIST", default_value = "exp:10s")]
    pub(crate) lifetime: Lifetime,
    /// Maximum number of connections open simultaneously; arrivals beyond it are skipped and counted
    #[arg(long, value_name = "N", default_value = "10000", value_parser = clap::value_parser!(u32).range(1..), hide_short_help = true)]
    pub(crate) max_open: u32,
    /// Seed for the random arrivals and lifetimes
    #[arg(long, value_name = "N", default_value = "1", hide_short_help = true)]
    pub(crate) seed: u64,
}

impl ChurnOptions {
    pub(super) fn load(&self) -> Load {
        Load::new(&self.server, self.max_open, self.rate, self.duration)
    }
}

/// Upper bound on a lifetime: a heavy-tailed distribution may produce centuries.
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Distribution of how long connections stay open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Lifetime {
    Fixed(Duration),
    Exp { mean: Duration },
    Pareto { shortest: Duration, shape: f64 },
}

impl Lifetime {
    pub(crate) fn sample(self, rng: &mut impl Rng) -> Duration {
        let seconds = match self {
            Self::Fixed(lifetime) => return lifetime,
            Self::Exp { mean } => Exp::new(1.0 / mean.as_secs_f64()).map(|exp| exp.sample(rng)).ok(),
            Self::Pareto { shortest, shape } => {
                Pareto::new(shortest.as_secs_f64(), shape).map(|pareto| pareto.sample(rng)).ok()
            }
        };
        let seconds = seconds.unwrap_or_default().min(MAX_LIFETIME.as_secs_f64());
        Duration::try_from_secs_f64(seconds).unwrap_or(MAX_LIFETIME)
    }

    /// Returns the mean in seconds. `None` if the distribution has no finite mean.
    pub(crate) fn mean(self) -> Option<f64> {
        match self {
            Self::Fixed(lifetime) => Some(lifetime.as_secs_f64()),
            Self::Exp { mean } => Some(mean.as_secs_f64()),
            Self::Pareto { shortest, shape } => {
                (shape > 1.0).then(|| shortest.as_secs_f64() * shape / (shape - 1.0))
            }
        }
    }
}

impl FromStr for Lifetime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let duration = |text| parse_interval(text).map_err(|error| format!("{text:?}: {error}"));
        match text.split(':').collect::<Vec<_>>()[..] {
            ["fixed", lifetime] => Ok(Self::Fixed(duration(lifetime)?)),
            ["exp", mean] => Ok(Self::Exp { mean: duration(mean)? }),
            ["pareto", shortest, shape] => {
                let shape: f64 = shape.parse().map_err(|_| format!("{shape:?} is not a number"))?;
                if !(0.1..=100.0).contains(&shape) {
                    return Err("the shape must be from 0.1 to 100".to_owned());
                }
                Ok(Self::Pareto { shortest: duration(shortest)?, shape })
            }
            _ => Err("must be fixed:MEAN, exp:MEAN or pareto:SHORTEST:SHAPE".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;

    #[test]
    fn bad_lifetimes_are_refused() {
        for bad in ["", "10s", "exp", "exp:x", "exp:0s", "fixed:", "pareto:1s", "pareto:1s:0", "pareto:1s:x"]
        {
            assert!(bad.parse::<Lifetime>().is_err(), "{bad}");
        }
    }

    #[test]
    fn lifetimes_have_their_mean() {
        for text in ["fixed:10s", "exp:10s", "pareto:5s:3"] {
            let lifetime: Lifetime = text.parse().expect("the lifetime is valid");
            let mut rng = SmallRng::seed_from_u64(1);
            let sum: f64 = (0..20_000).map(|_| lifetime.sample(&mut rng).as_secs_f64()).sum();
            let (mean, expected) = (sum / 20_000.0, lifetime.mean().expect("the mean is finite"));
            assert!((mean / expected - 1.0).abs() < 0.05, "{text}: {mean}, not {expected}");
        }
    }

    #[test]
    fn lifetimes_are_bounded() {
        let lifetime = Lifetime::Pareto { shortest: Duration::from_secs(1), shape: 0.1 };
        let mut rng = SmallRng::seed_from_u64(1);
        for _ in 0..1000 {
            assert!(lifetime.sample(&mut rng) <= MAX_LIFETIME);
        }
        assert_eq!(lifetime.mean(), None);
    }
}
