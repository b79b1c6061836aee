//! What a run measured, and what it must reach.

use serde::{Deserialize, Serialize};

/// What a run measured, in the order of the table.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Measurement {
    /// By name.
    pub figures: Vec<Figure>,
}

/// One figure.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figure {
    /// What it is, with its unit.
    pub name: String,
    /// In the unit of its name.
    pub value: f64,
}

/// What a figure, or its ratio to that of others, must reach.
pub struct Target {
    /// The figure of that name.
    pub figure: String,
    /// The label of a contender.
    pub of: &'static str,
    /// Divided by the greatest among these of the same round; by nothing, if none are named.
    pub over: &'static [&'static str],
    /// What is well.
    pub bound: Bound,
}

/// On which side of the bound is well.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
    /// Anything: it is told beside the others.
    None,
}

impl Measurement {
    /// Adds a figure.
    pub fn put(&mut self, name: &str, value: f64) {
        self.figures.push(Figure { name: name.into(), value });
    }

    /// The figure of that name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }
}
