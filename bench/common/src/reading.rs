//! The measurement of a run, and its targets.

use serde::{Deserialize, Serialize};

/// The measurement of a run, in the order of the table.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Measurement {
    /// By name.
    pub figures: Vec<Figure>,
}

/// One figure.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figure {
    /// Its name, with the unit.
    pub name: String,
    /// In the unit of its name.
    pub value: f64,
}

/// The target of a figure, or of its ratio to others.
pub struct Target {
    /// The name of the figure.
    pub figure: String,
    /// The label of a contender.
    pub of: &'static str,
    /// The greatest figure of these contenders in the same round is the divisor; none: no division.
    pub over: &'static [&'static str],
    /// The bound to reach.
    pub bound: Bound,
}

/// The bound of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
    /// No bound: the figure is only reported.
    None,
}

impl Measurement {
    /// Adds a figure.
    pub fn put(&mut self, name: &str, value: f64) {
        self.figures.push(Figure { name: name.into(), value });
    }

    /// The figure of this name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }
}
