//! Tables in Markdown, so that a document can include a benchmark's output.

use std::fmt::{self, Write};

/// Writes rows into `out`, the first of which is the head: names left-aligned, figures
/// right-aligned.
///
/// # Errors Only those of `out`.
pub fn table(out: &mut String, rows: &[Vec<String>]) -> fmt::Result {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> =
        (0..columns).map(|at| rows.iter().map(|row| row[at].len()).max().unwrap_or(0)).collect();
    for (at, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let line = cells.collect::<Vec<_>>().join(" | ");
        writeln!(out, "{}| {line} |", if at == 0 { "\n" } else { "" })?;
        if at == 0 {
            let rules = widths.iter().enumerate().map(|(column, &width)| match column {
                0 => "-".repeat(width),
                _ => format!("{}:", "-".repeat(width.saturating_sub(1))),
            });
            writeln!(out, "| {} |", rules.collect::<Vec<_>>().join(" | "))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["", "ours"], ["rate", "12345"]].map(|row| row.map(String::from).to_vec());
        let mut out = String::new();
        table(&mut out, &rows).unwrap();
        assert_eq!(out, "\n|      |  ours |\n| ---- | ----: |\n| rate | 12345 |\n");
    }
}
