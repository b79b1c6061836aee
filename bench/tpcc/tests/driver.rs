//! The whole driver on the systems that are there: from the command line to the report and its pictures. Such a short run gives no meaningful figures.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test, which runs processes")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_bench-tpcc");

/// Runs this system for some seconds; `None` if it is not installed.
fn report_of(system: &str) -> Option<Value> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let small = ["--customers-per-district=30", "--items=200", "--seconds=6", "--rounds=1", "--copies=1"];
    let output = Command::new(PROGRAM)
        .args(small)
        .args(["--durability=interval", "--systems", system, "--json"])
        .arg(&file)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    if let Some(missing) = report["missing"].get(0) {
        eprintln!("nothing to measure: {missing}");
        return None;
    }
    let picture = report["pictures"][0].as_str().unwrap();
    assert_eq!(picture, "report-copies-1-interval.svg");
    assert!(std::fs::read_to_string(folder.path().join(picture)).unwrap().contains("<polyline"));
    Some(report)
}

/// Transactions of this kind that are committed.
fn committed(report: &Value, kind: &str) -> u64 {
    let all = report["runs"][0]["transactions"].as_array().unwrap();
    all.iter().find(|one| one["name"] == kind).unwrap()["committed"].as_u64().unwrap()
}

fn assert_all_done(report: &Value) {
    for kind in ["New-Order", "Payment", "Order-Status", "Delivery", "Stock-Level"] {
        assert!(committed(report, kind) > 0, "{kind}: {report}");
    }
    let conditions = report["runs"][0]["conditions"].as_array().unwrap();
    assert_eq!(conditions.iter().map(|one| one["violations"].as_u64().unwrap()).collect::<Vec<_>>(), [0; 14]);
}

#[test]
fn postgresql_runs_all_transactions_and_meets_the_conditions() {
    if let Some(report) = report_of("postgresql") {
        assert_all_done(&report);
    }
}

#[test]
fn zerohop_meets_the_conditions_while_regions_are_split_and_moved() {
    // It is built beside this program when all tests are built; alone it may be missing.
    if !Path::new(PROGRAM).with_file_name("zerohop").is_file() {
        return eprintln!("no zerohop beside bench-tpcc: nothing to measure");
    }
    if let Some(report) = report_of("zerohop-moving") {
        assert_all_done(&report);
        let kinds: Vec<&str> = report["runs"][0]["marks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["kind"].as_str().unwrap())
            .collect();
        assert!(kinds.starts_with(&["split", "move"]), "{kinds:?}");
    }
}
