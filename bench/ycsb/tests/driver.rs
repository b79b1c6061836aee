//! The whole driver on each system that is there: from the command line to the report. Such a short run gives no meaningful figures.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test, which runs processes")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_bench-ycsb");

/// Runs all workloads of a system with this durability, and checks that each has figures. Does nothing if it is not installed.
fn check(system: &str, mode: &str, workloads: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let output = Command::new(PROGRAM)
        .args([
            "--records=300",
            "--value-bytes=1000",
            "--seconds=1",
            "--rounds=1",
            "--clients=3",
            "--depth=2",
        ])
        .args(["--systems", system, "--modes", mode, "--json"])
        .arg(&file)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    if let Some(missing) = report["missing"].get(0) {
        return eprintln!("nothing to measure: {missing}");
    }
    let scenarios = report["scenarios"].as_array().unwrap();
    let names: Vec<&str> = scenarios.iter().map(|one| one["scenario"].as_str().unwrap()).collect();
    let expected: Vec<String> = workloads.iter().map(|workload| format!("{mode}-{workload}")).collect();
    assert_eq!(names, expected);
    for scenario in scenarios {
        let rate = &scenario["contenders"][0]["figures"][0];
        assert_eq!(rate[0], "operations/s");
        assert!(rate[1]["median"].as_f64().unwrap() > 1.0, "{scenario}");
    }
}

const ALL: [&str; 6] = ["a", "b", "c", "f", "d", "e"];

#[test]
fn redis_runs_all_workloads() {
    check("redis", "interval", &ALL);
}

#[test]
fn etcd_runs_all_workloads_when_writes_are_stored_first_and_else_scans() {
    check("etcd", "sync", &ALL);
    check("etcd", "interval", &["e"]);
}

#[test]
fn postgresql_runs_all_workloads() {
    check("postgresql", "interval", &ALL);
}

#[test]
fn zerohop_runs_all_workloads() {
    // It is built beside this program when all tests are built; alone it may be missing.
    if !Path::new(PROGRAM).with_file_name("zerohop").is_file() {
        return eprintln!("no zerohop beside bench-ycsb: nothing to measure");
    }
    check("zerohop", "sync", &ALL);
}
