//! The driver from its command line, on the subject that needs no library.

#![expect(clippy::unwrap_used, reason = "a test; the lint spares only functions marked as such")]

use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bench-engine")).args(arguments).output().unwrap()
}

#[test]
fn a_run_prints_a_table_and_writes_every_round_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let output = bench(&[
        "--only=hash-map",
        "--records=1000,2000",
        "--rounds=2",
        "--mixed",
        "--json",
        report.to_str().unwrap(),
    ]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    for phase in ["insert", "lookup", "overwrite", "mixed", "remove"] {
        assert!(printed.lines().any(|line| line.starts_with(phase)), "no phase {phase} in\n{printed}");
    }
    assert!(printed.contains("machine: "));

    let report: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    let tables = report["tables"].as_array().unwrap();
    assert_eq!(tables.len(), 2);
    for (table, records) in tables.iter().zip([1000, 2000]) {
        assert_eq!(table["records"], records);
        let runs = table["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 2);
        assert!(runs.iter().all(|run| run["run"]["phases"][0]["ops"] == records));
    }
}

/// Such a short run gives meaningless verdicts; each must exist.
#[test]
fn every_scenario_gives_each_target_a_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let output = bench(&[
        "--scenario=all",
        "--records=3000",
        "--partitions=1,4",
        "--rounds=1",
        "--json",
        report.to_str().unwrap(),
    ]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert!(printed.contains("entries/s: 4 over 1") && printed.contains("p99.9, us: 4 on over 4 off"));

    let report: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    let scenarios = report["scenarios"].as_array().unwrap();
    let counts: Vec<(&str, usize, usize)> = scenarios
        .iter()
        .map(|scenario| {
            let count = |of: &str| scenario[of].as_array().unwrap().len();
            (scenario["scenario"].as_str().unwrap(), count("readings"), count("verdicts"))
        })
        .collect();
    assert_eq!(counts, [("sync", 2, 1), ("recovery", 8, 8), ("compaction", 4, 4), ("log", 2, 1)]);
    // A killed store also recovers from the journal.
    let killed = scenarios[1]["readings"].as_array().unwrap().iter().find(|row| row[0] == "4 killed cold");
    let figures = killed.unwrap()[2]["figures"].as_array().unwrap();
    let found = |name: &str| figures.iter().find(|figure| figure["name"] == name).unwrap()["value"].as_f64();
    assert!(found("entries from logs").unwrap() + found("entries from the journal").unwrap() >= 3000.0);
}

#[test]
fn invalid_argument_is_named_before_any_run() {
    for (arguments, named) in [
        (&["--only=hashmap"][..], "hash-map, kyotocabinet"),
        (&["--records=0"], "--records 0"),
        (&["--rounds=0"], "--rounds 0"),
        (&["--cores=4095"], "--cores 4095"),
        (&["--scenario=synch"], "compaction"),
    ] {
        let output = bench(arguments);
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(printed.contains(named), "{arguments:?}: {printed}");
    }
}
