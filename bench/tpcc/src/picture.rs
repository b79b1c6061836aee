//! A picture of curves over time as SVG: panels below each other with the same time axis, and marks through all of them.
//!
//! ```text
//!   title, legend
//!   panel   curve, curve, …      marks: a band from the begin of an event to its end
//!   panel
//!   seconds
//! ```

use std::fmt::{self, Write};

/// The whole picture.
pub(crate) struct Picture {
    pub(crate) title: String,
    /// The length of the time axis.
    pub(crate) seconds: f64,
    /// The names of curves, in the order of their colours.
    pub(crate) names: Vec<String>,
    pub(crate) panels: Vec<Panel>,
    pub(crate) bands: Vec<Band>,
    /// The lines below the panels.
    pub(crate) notes: Vec<String>,
}

/// One panel.
pub(crate) struct Panel {
    /// What it shows, with the unit.
    pub(crate) title: String,
    pub(crate) curves: Vec<Curve>,
}

/// A curve of a panel.
pub(crate) struct Curve {
    /// The place of its name in the picture's names.
    pub(crate) name: usize,
    /// Seconds and values, in the order of time.
    pub(crate) points: Vec<(f64, f64)>,
}

/// A mark of an event.
pub(crate) struct Band {
    pub(crate) from: f64,
    pub(crate) until: f64,
    /// Shown when the pointer is on it.
    pub(crate) about: String,
}

/// Sizes in pixels.
const WIDTH: f64 = 900.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 60.0;
const PANEL: f64 = 110.0;
const GAP: f64 = 34.0;
const LINE: f64 = 18.0;
/// The least width of a band, so that a short event is seen.
const BAND: f64 = 1.5;

/// Colours that differ in brightness too, and dashes for those who see no colours.
const STYLES: [(&str, &str); 4] =
    [("#0b5fa5", "none"), ("#e08a1e", "7 3"), ("#3a3a3a", "2 2"), ("#7a3fa0", "9 3 2 3")];

impl Picture {
    /// The file.
    pub(crate) fn svg(&self) -> String {
        let mut out = String::new();
        // Writing into a string does not fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        let bottom = TOP + self.panels.len() as f64 * (PANEL + GAP);
        let height = bottom + (self.notes.len() as f64 + 1.0) * LINE;
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">"
        )?;
        writeln!(out, "<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>")?;
        text(out, (LEFT, 20.0), "start", &self.title)?;
        let mut at = LEFT;
        for (name, (colour, dashes)) in self.names.iter().zip(STYLES.iter().cycle()) {
            writeln!(
                out,
                "<path d=\"M{at} 38h28\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>"
            )?;
            text(out, (at + 34.0, 42.0), "start", name)?;
            at += 60.0 + 7.0 * name.chars().count() as f64;
        }
        for (number, panel) in self.panels.iter().enumerate() {
            self.panel(out, panel, TOP + number as f64 * (PANEL + GAP) + LINE)?;
        }
        for (number, note) in (1..).zip(&self.notes) {
            text(out, (LEFT, bottom + f64::from(number) * LINE), "start", note)?;
        }
        writeln!(out, "</svg>")
    }

    fn panel(&self, out: &mut String, panel: &Panel, top: f64) -> fmt::Result {
        let Panel { title, curves } = panel;
        let bottom = top + PANEL;
        let values = curves.iter().flat_map(|curve| &curve.points).map(|(_, value)| *value);
        let step = step(values.fold(0.0, f64::max) / 3.0);
        let greatest = values_end(curves, step);
        let x = |second: f64| LEFT + second / self.seconds.max(1.0) * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| bottom - value / greatest * PANEL;
        text(out, (LEFT, top - 5.0), "start", title)?;
        for Band { from, until, about } in &self.bands {
            let width = (x(*until) - x(*from)).max(BAND);
            writeln!(
                out,
                "<rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{PANEL}\" fill=\"#f3d9a4\" fill-opacity=\"0.6\"><title>{}</title></rect>",
                x(*from),
                escaped(about)
            )?;
        }
        let mut value = 0.0;
        while value <= greatest * 1.001 {
            let height = y(value);
            writeln!(out, "<path d=\"M{LEFT} {height:.1}H{:.1}\" stroke=\"#d0d0d0\"/>", WIDTH - RIGHT)?;
            text(out, (LEFT - 6.0, height + 4.0), "end", &label(value, step))?;
            value += step;
        }
        let seconds = self::step(self.seconds / 10.0);
        let mut second = 0.0;
        while second <= self.seconds * 1.001 {
            text(out, (x(second), bottom + 14.0), "middle", &label(second, seconds))?;
            second += seconds;
        }
        for Curve { name, points } in curves {
            let (colour, dashes) = STYLES[name % STYLES.len()];
            let points: Vec<String> =
                points.iter().map(|(second, value)| format!("{:.1},{:.1}", x(*second), y(*value))).collect();
            writeln!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" stroke-dasharray=\"{dashes}\"/>",
                points.join(" ")
            )?;
        }
        Ok(())
    }
}

/// The end of an axis: the greatest value, rounded up to a step.
fn values_end(curves: &[Curve], step: f64) -> f64 {
    let greatest = curves.iter().flat_map(|curve| &curve.points).map(|(_, value)| *value).fold(0.0, f64::max);
    ((greatest / step).ceil() * step).max(step)
}

/// The least of 1, 2, 5, 10, … and their parts of ten that is not below this.
fn step(least: f64) -> f64 {
    if least <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(least.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    factors
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= least * 0.999)
        .unwrap_or(10.0 * power)
}

/// A number on an axis with this step.
fn label(value: f64, step: f64) -> String {
    let digits = (-step.log10().floor()).max(0.0) as usize;
    format!("{value:.digits$}")
}

fn text(out: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) -> fmt::Result {
    writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", escaped(text))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(points: Vec<(f64, f64)>) -> String {
        let curve = |name| Curve { name, points: points.clone() };
        let panel = Panel { title: "rate <1/s>".into(), curves: vec![curve(0), curve(1)] };
        let band = Band { from: 2.0, until: 4.0, about: "a \"b\" & c".into() };
        Picture {
            title: "run".into(),
            seconds: 10.0,
            names: vec!["one".into(), "two".into()],
            panels: vec![panel],
            bands: vec![band],
            notes: vec!["note".into()],
        }
        .svg()
    }

    #[test]
    fn points_lie_between_the_axes() {
        let svg = picture(vec![(0.0, 0.0), (5.0, 50.0), (10.0, 100.0)]);
        // From the left to the right edge, and from the bottom to the top of the panel.
        assert!(svg.contains("points=\"70.0,188.0 475.0,133.0 880.0,78.0\""), "{svg}");
        assert!(svg.contains("<rect x=\"232.0\" y=\"78.0\" width=\"162.0\""), "{svg}");
        assert!(
            svg.contains(">100</text>") && svg.contains(">50</text>") && svg.contains(">10</text>"),
            "{svg}"
        );
    }

    #[test]
    fn curves_have_different_styles_and_texts_are_escaped() {
        let svg = picture(vec![(1.0, 1.0)]);
        assert_eq!(svg.matches("stroke-dasharray=\"7 3\"").count(), 2, "{svg}");
        assert!(svg.contains("rate &lt;1/s&gt;") && svg.contains("a &quot;b&quot; &amp; c"), "{svg}");
        assert_eq!((svg.matches("<svg").count(), svg.matches("</svg>").count()), (1, 1));
    }

    #[test]
    fn steps_are_round_and_labels_have_their_digits() {
        assert_eq!([0.0, 0.03, 1.0, 1.1, 2.5, 400.0].map(step), [1.0, 0.05, 1.0, 2.0, 5.0, 500.0]);
        assert_eq!((label(0.15, 0.05), label(300.0, 100.0)), ("0.15".to_owned(), "300".to_owned()));
    }

    #[test]
    fn picture_without_points_ends() {
        assert!(picture(Vec::new()).ends_with("</svg>\n"));
    }
}
