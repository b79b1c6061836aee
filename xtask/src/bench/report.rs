//! `cargo xtask bench report`: generates the tables of `docs/performance.md` from the stored
//! results.

use std::fmt::Write;
use std::fs;

use serde_json::Value;

use super::results::{FOLDER, Results};
use crate::workspace::{Failure, Workspace};

/// The document.
pub const DOCUMENT: &str = "docs/performance.md";

/// The generated text is between these lines.
const BEGIN: &str = "<!-- begin of what `cargo xtask bench report` writes -->";
const END: &str = "<!-- end of what `cargo xtask bench report` writes -->";

/// Runs that can be kept: the benchmark, whether the run is one of the scenarios of `engine`, and its command.
const RECORDED: [(&str, bool, &str); 10] = [
    ("blob", false, "blob"),
    ("cluster", false, "cluster"),
    ("engine", false, "engine"),
    ("engine", true, "engine --scenario all"),
    ("kv", false, "kv"),
    ("monitor", false, "monitor"),
    ("python", false, "python"),
    ("resp", false, "resp"),
    ("tpcc", false, "tpcc"),
    ("ycsb", false, "ycsb"),
];

/// Writes the tables into the document.
pub fn run(workspace: &Workspace) -> Result<(), Failure> {
    let path = workspace.root.join(DOCUMENT);
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
    let text = fs::read_to_string(&path).map_err(failed)?;
    let all = Results::read_all(&workspace.root)?;
    let written = written_into(&text, &all)?;
    fs::write(&path, written).map_err(failed)?;
    println!("xtask: {DOCUMENT} has the tables of {} benchmarks", all.len());
    Ok(())
}

/// The document's text, with the tables of these results.
pub fn written_into(text: &str, all: &[Results]) -> Result<String, Failure> {
    let missing = || Failure::new(format!("{DOCUMENT} has no lines `{BEGIN}` and `{END}`"));
    let (before, rest) = text.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{before}{BEGIN}\n\n{}{END}{after}", tables(all)))
}

fn tables(all: &[Results]) -> String {
    let mut out = String::new();
    // Writing into a string does not fail.
    let _ = goals(&mut out, all);
    for results in all {
        let _ = benchmark(&mut out, results);
    }
    let _ = not_measured(&mut out, all);
    out
}

/// The runs without kept results.
fn not_measured(out: &mut String, all: &[Results]) -> std::fmt::Result {
    let is_kept = |name: &str, has_scenarios: bool| {
        all.iter().any(|results| {
            let scenarios = !items(&results.report, "scenarios").is_empty();
            results.name == name && (name != "engine" || scenarios == has_scenarios)
        })
    };
    let missing: Vec<&str> = RECORDED
        .iter()
        .filter(|(name, has_scenarios, _)| !is_kept(name, *has_scenarios))
        .map(|(.., command)| *command)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    writeln!(out, "### Not measured in this report\n\nNo kept run has the figures of these commands:\n")?;
    for command in missing {
        writeln!(out, "- `cargo xtask bench {command} --record`")?;
    }
    writeln!(out)
}

/// Every goal of every benchmark in one table.
fn goals(out: &mut String, all: &[Results]) -> std::fmt::Result {
    writeln!(out, "### Goals\n\n| benchmark | what | goal | measured | |\n| --- | --- | --- | --- | --- |")?;
    for results in all {
        for scenario in items(&results.report, "scenarios") {
            for verdict in items(scenario, "verdicts") {
                let bound = match &verdict["bound"] {
                    Value::Object(bound) => bound.iter().next(),
                    _ => None,
                };
                let goal = bound
                    .map_or("-".to_owned(), |(side, value)| format!("{} {value}", side.replace('_', " ")));
                let is_met = match (bound, verdict["is_met"].as_bool()) {
                    (None, _) => "",
                    (_, Some(true)) => "met",
                    _ => "missed",
                };
                let (name, what) = (&results.name, text(&verdict["what"]));
                writeln!(
                    out,
                    "| {name} {} | {what} | {goal} | {} | {is_met} |",
                    text(&scenario["scenario"]),
                    spread(&verdict["figure"])
                )?;
            }
        }
    }
    writeln!(out)
}

fn benchmark(out: &mut String, results: &Results) -> std::fmt::Result {
    let machine = &results.report["machine"];
    writeln!(out, "### {}\n", results.name)?;
    writeln!(
        out,
        "`cargo xtask bench {}`, commit {}, {}: {}, {} cores, {} GiB, Linux {}, load average {}.\n",
        std::iter::once(&results.name).chain(&results.arguments).cloned().collect::<Vec<_>>().join(" "),
        results.commit,
        text(&machine["date"]),
        text(&machine["cpu"]),
        machine["cores"],
        machine["memory_gib"],
        text(&machine["kernel"]),
        text(&machine["load"]),
    )?;
    for scenario in items(&results.report, "scenarios") {
        writeln!(out, "**{}**: {}\n", text(&scenario["scenario"]), text(&scenario["about"]))?;
        figures(out, items(scenario, "contenders").iter().chain(items(scenario, "cases")))?;
        for failure in items(scenario, "failures") {
            writeln!(out, "- failed: {}\n", text(failure))?;
        }
    }
    for table in items(&results.report, "tables") {
        phases(out, table)?;
    }
    for picture in items(&results.report, "pictures") {
        writeln!(out, "![{0}](../{FOLDER}/{0})\n", text(picture))?;
    }
    for missing in items(&results.report, "missing") {
        writeln!(out, "- not measured: {}\n", text(missing))?;
    }
    Ok(())
}

/// One row for each contender, one column for each figure.
fn figures<'v>(out: &mut String, contenders: impl Iterator<Item = &'v Value>) -> std::fmt::Result {
    let contenders: Vec<&Value> = contenders.collect();
    let mut names: Vec<&str> = Vec::new();
    for figure in contenders.iter().flat_map(|contender| items(contender, "figures")) {
        let name = figure[0].as_str().unwrap_or("-");
        if !names.contains(&name) {
            names.push(name);
        }
    }
    writeln!(out, "| | {} |\n| --- |{}", names.join(" | "), " --- |".repeat(names.len()))?;
    for contender in contenders {
        let of = |name: &&str| {
            let found = items(contender, "figures").iter().find(|figure| figure[0].as_str() == Some(*name));
            found.map_or("-".to_owned(), |figure| spread(&figure[1]))
        };
        let cells: Vec<String> = names.iter().map(of).collect();
        writeln!(out, "| {} | {} |", text(&contender["label"]), cells.join(" | "))?;
    }
    writeln!(out)
}

/// The engine beside libraries: one table per phase, followed by its ratios.
fn phases(out: &mut String, table: &Value) -> std::fmt::Result {
    writeln!(out, "**{} records**, {} rounds\n", table["records"], table["rounds"])?;
    for phase in items(table, "phases") {
        writeln!(
            out,
            "| {} | operations/s | settled | p50 us | p99 us | p99.9 us | CPU us/op |\n| --- | --- | --- | --- | --- | --- | --- |",
            text(&phase["phase"])
        )?;
        for row in items(phase, "rows") {
            let columns = ["ops_per_s", "settled_ops_per_s", "p50_us", "p99_us", "p999_us", "cpu_us_per_op"];
            let cells: Vec<String> = columns.iter().map(|name| spread(&row[*name])).collect();
            writeln!(out, "| {} | {} |", text(&row["label"]), cells.join(" | "))?;
        }
        writeln!(out)?;
        for ratio in items(phase, "ratios") {
            writeln!(
                out,
                "- {} over {} ({}): {} by the clock, {} by processor time",
                text(&ratio["ours"]),
                text(&ratio["best"]),
                text(&ratio["against"]).replace('_', " "),
                spread(&ratio["ops_per_s"]),
                spread(&ratio["ops_per_cpu_s"]),
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn items<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), |text| text.replace('|', "/").replace('\n', " "))
}

/// `median [least-greatest]`, as the benchmarks print it.
fn spread(value: &Value) -> String {
    let Some(median) = value["median"].as_f64() else { return "-".to_owned() };
    let digits = match median.abs() {
        large if large >= 100.0 => 0,
        middling if middling >= 10.0 => 1,
        _ => 2,
    };
    let print = |name: &str| format!("{:.digits$}", value[name].as_f64().unwrap_or(f64::NAN));
    let (median, least, greatest) = (print("median"), print("least"), print("greatest"));
    if least == greatest { median } else { format!("{median} [{least}-{greatest}]") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spread_of(median: f64, least: f64, greatest: f64) -> Value {
        json!({ "median": median, "least": least, "greatest": greatest })
    }

    fn results() -> Results {
        let report = json!({
            "machine": { "cpu": "a cpu", "kernel": "6.1", "cores": 2, "memory_gib": 24, "date": "2026-01-02", "load": "0.1" },
            "missing": ["memcached: not installed"],
            "scenarios": [{
                "scenario": "set", "about": "one | two", "rounds": 3, "failures": [],
                "contenders": [
                    { "label": "zerohop", "figures": [["K op/s", spread_of(120.4, 100.0, 130.0)]] },
                    { "label": "redis", "figures": [["K op/s", spread_of(60.2, 60.2, 60.2)], ["p99 us", spread_of(5.0, 4.0, 6.0)]] },
                ],
                "verdicts": [
                    { "what": "rate over redis", "figure": spread_of(2.0, 1.8, 2.1), "bound": { "at_least": 1.5 }, "is_met": true },
                    { "what": "latency", "figure": null, "bound": "none", "is_met": false },
                ],
            }],
        });
        Results {
            name: "kv".to_owned(),
            commit: "abc".to_owned(),
            arguments: vec!["--rounds".to_owned()],
            report,
        }
    }

    #[test]
    fn report_has_machine_figures_and_goals() {
        let text = written_into(&format!("# Before\n{BEGIN}\nold\n{END}\nafter\n"), &[results()]).unwrap();
        for line in [
            "# Before",
            "| kv set | rate over redis | at least 1.5 | 2.00 [1.80-2.10] | met |",
            "| kv set | latency | - | - |  |",
            "`cargo xtask bench kv --rounds`, commit abc, 2026-01-02: a cpu, 2 cores, 24 GiB, Linux 6.1, load average 0.1.",
            "**set**: one / two",
            "| | K op/s | p99 us |",
            "| zerohop | 120 [100-130] | - |",
            "| redis | 60.2 | 5.00 [4.00-6.00] |",
            "- not measured: memcached: not installed",
            "- `cargo xtask bench resp --record`",
            "- `cargo xtask bench engine --scenario all --record`",
            "after",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        assert!(!text.contains("old") && !text.contains("bench kv --record"), "{text}");
        assert_eq!(written_into(&text, &[results()]).unwrap(), text, "written again it is the same");
    }

    #[test]
    fn pictures_are_shown_from_the_folder_of_results() {
        let mut results = results();
        results.report["pictures"] = json!(["bench-tpcc-copies-1-sync.svg"]);
        let text = tables(&[results]);
        let link = "](../bench/results/bench-tpcc-copies-1-sync.svg)";
        assert!(text.contains(link), "{text}");
    }

    #[test]
    fn phases_of_the_engine_have_rows_and_ratios() {
        let figure = || spread_of(1.0, 1.0, 1.0);
        let row = json!({ "label": "zerohop/1", "ops_per_s": figure(), "settled_ops_per_s": figure(), "p50_us": figure(),
            "p99_us": figure(), "p999_us": figure(), "cpu_us_per_op": figure() });
        let ratio = json!({ "ours": "zerohop/1", "against": "best_peer", "best": "lmdb", "ops_per_s": figure(), "ops_per_cpu_s": figure() });
        let table = json!({ "records": 10, "rounds": 2, "phases": [{ "phase": "insert", "rows": [row], "ratios": [ratio] }] });
        let mut out = String::new();
        phases(&mut out, &table).unwrap();
        assert!(out.contains("| zerohop/1 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 |"), "{out}");
        assert!(
            out.contains("- zerohop/1 over lmdb (best peer): 1.00 by the clock, 1.00 by processor time"),
            "{out}"
        );
    }

    #[test]
    fn a_document_without_the_marks_is_refused() {
        assert!(written_into("# Nothing", &[]).unwrap_err().to_string().contains("has no lines"));
    }
}
