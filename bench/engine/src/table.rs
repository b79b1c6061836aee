//! The summary as text for a terminal.

use std::fmt::{self, Write};

use crate::crash_safety::CrashSafe;
use crate::summary::{PeerChoice, PhaseSummary, Summary};
use bench_common::Spread;

/// Prints one summary into `out`.
pub(crate) fn write(out: &mut String, summary: &Summary) -> fmt::Result {
    writeln!(
        out,
        "\n# {} records, 15-byte keys, 132-byte values, {} rounds\n",
        summary.records, summary.rounds
    )?;
    subjects(out, summary)?;
    for phase in &summary.phases {
        rates(out, phase)?;
    }
    footprint(out, summary)?;
    for failure in &summary.failures {
        writeln!(out, "FAILED {} in round {}: {}", failure.label, failure.round + 1, failure.reason)?;
    }
    Ok(())
}

/// How to read the tables; printed once, below all of them.
pub(crate) const NOTES: &str = "\
One thread; medians over rounds with [least-greatest]; ratios are taken within each round. Each rate and latency
includes the harness's own cost, the same for all (key, value, check, clock). \"settled\" counts the time to bring all
to the disk at the end of the phase. CPU is that of all threads, settling included: where other work shares the
machine, trust it before wall time. Peers are one database each, whatever the number of partitions. survives: none (a
killed process can break it), process (a killed process cannot, a power cut can), power (neither can; the last
unsynced changes may be lost).
";

fn subjects(out: &mut String, summary: &Summary) -> fmt::Result {
    writeln!(out, "{:<18} {:<8} {:<8} {:>10}  mode", "subject", "version", "survives", "harness ns")?;
    for about in &summary.subjects {
        let survives = match about.crash_safe {
            CrashSafe::None => "none",
            CrashSafe::Process => "process",
            CrashSafe::Power => "power",
        };
        let harness = about.harness_ns.median;
        writeln!(
            out,
            "{:<18} {:<8} {survives:<8} {harness:>10.0}  {}",
            about.label, about.version, about.mode
        )?;
    }
    Ok(())
}

fn rates(out: &mut String, phase: &PhaseSummary) -> fmt::Result {
    writeln!(
        out,
        "\n{:<18} {:>22} {:>22} {:>8} {:>8} {:>22} {:>10}",
        phase.phase, "K op/s", "settled K op/s", "p50 us", "p99 us", "p99.9 us", "CPU us/op"
    )?;
    for row in &phase.rows {
        writeln!(
            out,
            "{:<18} {:>22} {:>22} {:>8.2} {:>8.2} {:>22} {:>10.2}",
            row.label,
            range(row.ops_per_s, 1e-3, 0),
            range(row.settled_ops_per_s, 1e-3, 0),
            row.p50_us.median,
            row.p99_us.median,
            range(row.p999_us, 1.0, 1),
            row.cpu_us_per_op.median,
        )?;
    }
    for ratio in &phase.ratios {
        let against = match ratio.against {
            PeerChoice::BestPeer => "best peer",
            PeerChoice::BestCrashSafePeer => "best crash-safe peer",
        };
        writeln!(
            out,
            "{:<18} {:>22} {:>22}   x {against} ({}); per CPU second {}",
            ratio.ours,
            range(ratio.ops_per_s, 1.0, 2),
            range(ratio.settled_ops_per_s, 1.0, 2),
            ratio.best,
            range(ratio.ops_per_cpu_s, 1.0, 2),
        )?;
    }
    Ok(())
}

fn footprint(out: &mut String, summary: &Summary) -> fmt::Result {
    writeln!(
        out,
        "\n{:<18} {:<10} {:>16} {:>16} {:>18} {:>16}",
        "bytes per key", "after", "on disk", "resident", "not file-mapped", "by own account"
    )?;
    for about in &summary.subjects {
        for phase in summary.phases.iter().filter(|phase| phase.phase != "lookup") {
            for row in phase.rows.iter().filter(|row| row.label == about.label) {
                writeln!(
                    out,
                    "{:<18} {:<10} {:>16} {:>16} {:>18} {:>16}",
                    row.label,
                    phase.phase,
                    range(row.disk_bytes_per_key, 1.0, 0),
                    range(row.rss_bytes_per_key, 1.0, 0),
                    range(row.anonymous_bytes_per_key, 1.0, 0),
                    row.own_memory_bytes_per_key.map_or("-".into(), |own| range(own, 1.0, 0)),
                )?;
            }
        }
    }
    writeln!(out)
}

/// `median [least-greatest]`, or the median alone where all rounds agree.
fn range(spread: Spread, scale: f64, digits: usize) -> String {
    let text = |figure: f64| format!("{:.digits$}", figure * scale);
    let (median, least, greatest) = (text(spread.median), text(spread.least), text(spread.greatest));
    let mut range = median;
    if least != greatest {
        // Writing into a string does not fail.
        let _ = write!(range, " [{least}-{greatest}]");
    }
    range
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::three_rounds;

    #[test]
    fn the_table_shows_rates_ratios_footprint_and_failures() {
        let mut outcomes = three_rounds();
        outcomes[6].result = Err(crate::failure::Failure::Store("full".into()));
        let mut out = String::new();
        write(&mut out, &Summary::of(1000, 3, outcomes)).unwrap();
        let line = |start: &str, with: &str| {
            assert!(
                out.lines().any(|line| line.starts_with(start) && line.contains(with)),
                "no line {start} … {with} in\n{out}"
            );
        };
        line("zerohop/1", "200 [100-400]");
        line("zerohop/1", "x best peer (quick); per CPU second 1.00");
        line("zerohop/1", "x best crash-safe peer (safe)");
        line("quick", "none");
        line("zerohop/1", "180");
        line("FAILED safe in round 2", "full");
    }

    #[test]
    fn a_range_is_left_out_where_rounds_agree() {
        let spread = |least, greatest| Spread { median: 1.52, least, greatest };
        assert_eq!(range(spread(1.52, 1.52), 1.0, 2), "1.52");
        assert_eq!(range(spread(1.4, 1.6), 1.0, 1), "1.5 [1.4-1.6]");
    }
}
