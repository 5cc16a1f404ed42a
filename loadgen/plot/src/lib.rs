//! Plots as SVG, with a light and a dark theme, for embedding in a page that includes [`STYLE`], or as
//! standalone files.
//!
//! A [`Plot`] has two [`Axis`] values and any number of [`Line`]s. Labels never overlap: a mark whose label
//! does not fit is left out.

mod axis;
mod file;
mod labels;
mod plot;
mod unit;

pub use self::axis::Axis;
pub use self::plot::{HEIGHT, Line, LineStyle, Plot, colour};
pub use self::unit::{Unit, digits, show_in_full};

/// Style sheet for pages that contain plots: colours of both themes, and styles of lines and labels.
pub const STYLE: &str = include_str!("style.css");
