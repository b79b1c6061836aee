//! The text output of `zerohop top`: a table for 80 columns.

use super::sample::{Figures, StageFigures};
use super::{TopNode, TopOutput};
use crate::common::names;
use zerohop_wire::plurals::{by_number, counted};

/// The usual width of a terminal, in columns.
const WIDTH: usize = 80;

/// The width of the first column.
const NAME_WIDTH: usize = 22;

/// Formats the table. `hint` is appended to the last line.
pub(super) fn table(shown: &TopOutput, hint: &str) -> String {
    let mut lines: Vec<String> = shown.warnings.iter().flat_map(|warning| folded(warning)).collect();
    lines.push(row("node", ["answers/s", "err/s", "in/s", "out/s", "p50", "p99", "copies", "mem", "cpus"]));
    for TopNode { id, state, manager, figures, silent } in &shown.nodes {
        let name = names::text(format!("{id} {manager}").as_bytes());
        lines.push(match (figures, silent) {
            (Some(figures), _) => line(&name, figures),
            (None, Some(why)) => shorten(&format!("{name:<NAME_WIDTH$} {state}: {why}"), WIDTH),
            (None, None) => format!("{name:<NAME_WIDTH$} {state}"),
        });
    }
    if shown.nodes.len() > 1 {
        lines.push(line("all", &shown.total));
    }
    lines.extend(waits_table(shown));
    // Each node counts its own troubles: the sum is a whole number.
    let troubles = shown.total.troubles.round();
    if troubles > 0.0 {
        let them = by_number(troubles, "it", "them");
        lines.push(format!("{}: `zerohop doctor` lists {them}", counted(troubles, "trouble")));
    }
    let seen = shown.seen.as_ref().map(|seen| format!(", {seen}")).unwrap_or_default();
    lines.extend(folded(&format!("over {:.1} s{seen}; p50, p99: us within the server{hint}", shown.seconds)));
    lines.join("\n")
}

/// The lines of the stages in which operations wait, if there are any.
fn waits_table(shown: &TopOutput) -> Vec<String> {
    let mut lines = Vec::new();
    let total = (shown.nodes.len() > 1).then_some(("all".to_owned(), &shown.total));
    let nodes = shown.nodes.iter().filter_map(|node| {
        let name = names::text(format!("{} {}", node.id, node.manager).as_bytes());
        Some((name, node.figures.as_ref()?))
    });
    for (name, figures) in nodes.chain(total) {
        let Some(stages) = &figures.waits else { continue };
        if lines.is_empty() {
            lines.push(String::new());
            lines.push(waits_row("node", ["waits in", "waits/s", "p50", "p99", "of time"]));
        }
        let all: f64 = stages.iter().map(|stage| stage.seconds_per_s).sum();
        let mut name = &*name;
        for StageFigures { stage, waits_per_s, seconds_per_s, us_p50, us_p99 } in stages {
            if *waits_per_s == 0.0 {
                continue;
            }
            let us = |time: &Option<f64>| time.map_or_else(|| "-".to_owned(), short);
            let share =
                if all > 0.0 { format!("{:.0}%", seconds_per_s / all * 100.0) } else { "-".to_owned() };
            let cells = [(*stage).to_owned(), short(*waits_per_s), us(us_p50), us(us_p99), share];
            lines.push(waits_row(std::mem::take(&mut name), cells.each_ref().map(String::as_str)));
        }
        if !name.is_empty() {
            lines.push(waits_row(name, ["none", "0", "-", "-", "-"]));
        }
    }
    lines
}

fn waits_row(name: &str, [stage, waits, p50, p99, share]: [&str; 5]) -> String {
    let name = shorten(name, NAME_WIDTH);
    format!("{name:<NAME_WIDTH$} {stage:>9} {waits:>8} {p50:>5} {p99:>5} {share:>7}")
}

fn line(name: &str, figures: &Figures) -> String {
    let us = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), short);
    let cells = [
        short(figures.answers_per_s),
        short(figures.failures_per_s),
        short(figures.received_bytes_per_s),
        short(figures.sent_bytes_per_s),
        us(figures.batch_us_p50),
        us(figures.batch_us_p99),
        short(figures.records),
        short(figures.resident_bytes),
        format!("{:.1}", figures.processors),
    ];
    row(name, cells.each_ref().map(String::as_str))
}

fn row(
    name: &str,
    [answers, errors, received, sent, p50, p99, copies, memory, processors]: [&str; 9],
) -> String {
    let name = shorten(name, NAME_WIDTH);
    format!(
        "{name:<NAME_WIDTH$} {answers:>9} {errors:>5} {received:>5} {sent:>5} {p50:>5} {p99:>5} {copies:>6} {memory:>5} {processors:>4}"
    )
}

/// A number in at most five characters: `999`, `12.3K`, `456M`.
fn short(number: f64) -> String {
    let mut number = number;
    for unit in ["", "K", "M", "G", "T"] {
        match number {
            _ if unit.is_empty() && number < 999.5 => return format!("{number:.0}"),
            _ if !unit.is_empty() && number < 99.95 => return format!("{number:.1}{unit}"),
            _ if number < 999.5 => return format!("{number:.0}{unit}"),
            _ => number /= 1000.0,
        }
    }
    format!("{number:.0}P")
}

/// Wraps a sentence into lines, between words.
fn folded(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let width = lines.last().map_or(0, |line| line.chars().count());
        match lines.last_mut() {
            Some(line) if width == 0 => line.push_str(word),
            Some(line) if width + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn shorten(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::view::ViewOutput;

    #[test]
    fn numbers_are_short() {
        let all = [0.0, 999.0, 999.6, 12_345.0, 456_000_000.0, 99_960.0, 999_900.0, 1.5e12, 5e15];
        assert_eq!(all.map(short), ["0", "999", "1.0K", "12.3K", "456M", "100K", "1.0M", "1.5T", "5P"]);
    }

    #[test]
    fn trouble_count_uses_singular_and_plural() {
        let shown = |troubles| TopOutput {
            seconds: 1.0,
            nodes: Vec::new(),
            total: Figures { troubles, ..Figures::default() },
            warnings: Vec::new(),
            view: ViewOutput::default(),
            seen: None,
        };
        let last = |troubles| table(&shown(troubles), "").lines().nth(1).unwrap().to_owned();
        assert_eq!(last(1.0), "1 trouble: `zerohop doctor` lists it");
        assert_eq!(last(2.0), "2 troubles: `zerohop doctor` lists them");
        assert!(last(0.0).starts_with("over "));
    }

    #[test]
    fn stages_have_a_line_each_with_their_share_of_the_time() {
        let stage = |stage, seconds_per_s, us_p50| StageFigures {
            stage,
            waits_per_s: 1e12,
            seconds_per_s,
            us_p50,
            us_p99: us_p50,
        };
        let idle = StageFigures { waits_per_s: 0.0, ..stage("log", 0.0, None) };
        let waits = vec![idle, stage("flush", 0.03, Some(2048.0)), stage("peers", 0.01, None)];
        let figures = Figures { waits: Some(waits), ..Figures::default() };
        let node = TopNode {
            id: 1,
            state: "up".to_owned(),
            manager: "127.0.0.1:7400".to_owned(),
            figures: Some(figures.clone()),
            silent: None,
        };
        let shown = TopOutput {
            seconds: 1.0,
            nodes: vec![node],
            total: figures,
            warnings: Vec::new(),
            view: ViewOutput::default(),
            seen: None,
        };
        let text = table(&shown, "");
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[2], [""; 0], "{text}");
        assert_eq!(lines[4], ["1", "127.0.0.1:7400", "flush", "1.0T", "2.0K", "2.0K", "75%"]);
        assert_eq!(lines[5], ["peers", "1.0T", "-", "-", "25%"]);
        assert!(lines[6][0] == "over" && text.lines().all(|line| line.len() <= WIDTH), "{text}");
    }

    #[test]
    fn large_figures_and_long_names_fit_80_columns() {
        let figures = Figures {
            answers_per_s: 1e12,
            failures_per_s: 1e12,
            received_bytes_per_s: 1e14,
            sent_bytes_per_s: 1e14,
            batch_us_p50: Some(9e8),
            batch_us_p99: Some(9e8),
            records: 9e14,
            resident_bytes: 9e14,
            processors: 99.9,
            ..Figures::default()
        };
        let node = |id, figures, silent: Option<&str>| TopNode {
            id,
            state: "up".to_owned(),
            manager: "a-rather-long-name.of-a-host.example:17400\u{1b}[2J".to_owned(),
            figures,
            silent: silent.map(str::to_owned),
        };
        let nodes = vec![
            node(1, Some(figures.clone()), None),
            node(2, None, Some(&"why ".repeat(40))),
            node(3, None, None),
        ];
        let warnings = vec!["word ".repeat(30)];
        let shown = TopOutput {
            seconds: 1234.5,
            nodes,
            total: figures,
            warnings,
            view: ViewOutput::default(),
            seen: Some("x ".repeat(90)),
        };
        let text = table(&shown, "; q ends");
        let long: Vec<&str> = text.lines().filter(|line| line.chars().count() > WIDTH).collect();
        assert!(text.lines().count() == 10 && !text.contains('\u{1b}'), "{text}");
        assert_eq!(long, [""; 0], "{text}");
        assert!(text.lines().any(|line| line.starts_with("node ") && line.len() == WIDTH), "{text}");
    }
}
