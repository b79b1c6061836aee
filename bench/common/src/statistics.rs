//! Medians and ranges over rounds. One disturbed round would distort a mean.

use std::fmt;

use serde::Serialize;

/// The median of some rounds, with minimum and maximum.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The median; the mean of two middle values.
    pub median: f64,
    /// The minimum.
    pub least: f64,
    /// The maximum.
    pub greatest: f64,
}

impl Spread {
    /// `None` without figures.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let middle = figures.len() / 2;
        let median = match figures.len() {
            0 => return None,
            odd if odd % 2 == 1 => figures[middle],
            _ => (figures[middle - 1] + figures[middle]) / 2.0,
        };
        Some(Spread { median, least: figures[0], greatest: figures[figures.len() - 1] })
    }
}

/// `median [least-greatest]`, or the median alone where all rounds agree.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = match self.median.abs() {
            large if large >= 100.0 => 0,
            middling if middling >= 10.0 => 1,
            _ => 2,
        };
        let text = |figure: f64| format!("{figure:.digits$}");
        let (median, least, greatest) = (text(self.median), text(self.least), text(self.greatest));
        if least == greatest { f.write_str(&median) } else { write!(f, "{median} [{least}-{greatest}]") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_prints_three_digits_and_its_range_if_not_empty() {
        let spread = |median, least, greatest| Spread { median, least, greatest }.to_string();
        assert_eq!(spread(1.5, 1.4, 1.625), "1.50 [1.40-1.62]");
        assert_eq!(spread(15.0, 15.01, 15.04), "15.0");
        assert_eq!(spread(150.4, 149.0, 151.0), "150 [149-151]");
    }

    #[test]
    fn the_median_is_the_middle_and_of_two_middles_their_mean() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { median: 2.0, least: 1.0, greatest: 3.0 }));
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).map(|spread| spread.median), Some(2.5));
        assert_eq!(Spread::of([]), None);
    }
}
