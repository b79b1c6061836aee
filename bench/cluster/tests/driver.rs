//! The whole driver, on clusters and without etcd: from the command line to the report. Such a
//! short run gives no meaningful figures.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test, which runs processes")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_bench-cluster");

fn bench(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().unwrap()
}

fn figures(report: &Value, scenario: usize, run: usize) -> impl Fn(&str) -> f64 {
    let reading = report["scenarios"][scenario]["readings"][run][2].clone();
    move |name| {
        let found = reading["figures"].as_array().unwrap().iter().find(|figure| figure["name"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {reading}"))["value"].as_f64().unwrap()
    }
}

#[test]
fn cluster_answers_correctly_under_load_and_survives_node_loss() {
    // It is built beside this program when all tests are built; alone it may be missing.
    if !Path::new(PROGRAM).with_file_name("zerohop").is_file() {
        return eprintln!("no zerohop beside bench-cluster: nothing to measure");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let file = file.to_str().unwrap();
    let short = ["--rounds=1", "--seconds=0.5", "--records=1000", "--turns=1", "--json", file];
    let only = ["--scenario=etcd,failover,rolling,start", "--only=interval,zerohop"];
    let output = bench(&[&short[..], &only].concat());
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let load = figures(&report, 0, 0);
    assert!(load("insert K op/s") > 0.0 && load("lookup K op/s") > 0.0);
    for (scenario, disturbed) in [(1, "new primaries ms"), (2, "restarts")] {
        let of = figures(&report, scenario, 0);
        assert!(of(disturbed) > 0.0 && of("K op/s") > 0.0 && of("longest gap ms") > 0.0);
        assert_eq!(of("lost writes"), 0.0);
    }
    let start = figures(&report, 3, 0);
    assert!(start("serving after ms") > 0.0);
    assert_eq!(start("copies of a record"), 3.0);
}

#[test]
fn invalid_argument_is_named_before_any_run() {
    for (arguments, named) in [
        (&["--scenario=etcetera"][..], "etcd, failover"),
        (&["--records=1"], "--records 1"),
        (&["--rounds=0"], "--rounds 0"),
        (&["--seconds=0"], "--seconds 0"),
        (&["--turns=0"], "--turns 0"),
        (&["--cores=4095"], "core 4095"),
    ] {
        let output = bench(arguments);
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(printed.contains(named), "{arguments:?}: {printed}");
    }
}
