//! The driver as a user starts it, on the subject that is always there.

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

#[test]
fn a_slip_on_the_command_line_is_named_before_anything_runs() {
    for (arguments, named) in [
        (&["--only=hashmap"][..], "hash-map, kyotocabinet"),
        (&["--records=0"], "--records 0"),
        (&["--rounds=0"], "--rounds 0"),
        (&["--cores=4095"], "--cores 4095"),
    ] {
        let output = bench(arguments);
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(printed.contains(named), "{arguments:?}: {printed}");
    }
}
