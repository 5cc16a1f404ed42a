//! Plots as SVG, on light and on dark ground: within a page, whose style sheet has [`STYLE`], or as files of their own.
//!
//! A [`Plot`] has two [`Axis`] and some [`Line`]s. Its texts never touch: a mark of an axis that has no room is left out.

mod axis;
mod file;
mod labels;
mod plot;
mod unit;

pub use self::axis::Axis;
pub use self::plot::{Form, HEIGHT, Line, Plot, colour};
pub use self::unit::{Unit, digits, show_in_full};

/// What a page needs to show plots: colours, for both grounds, and how lines and texts look.
pub const STYLE: &str = include_str!("style.css");
