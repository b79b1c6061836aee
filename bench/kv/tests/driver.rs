//! The driver from its command line, on the contender that needs no installation: the bare store.

#![expect(clippy::unwrap_used, reason = "a test; the lint spares only functions marked as such")]

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_bench-kv");

fn bench(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().unwrap()
}

/// Runs the bare store's contenders and reads the report.
fn report(arguments: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let output = bench(&[arguments, &["--only=bare", "--json", file.to_str().unwrap()]].concat());
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert!(printed.contains("machine: "), "{printed}");
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

fn figures(reading: &Value) -> impl Fn(&str) -> f64 {
    let figures = reading[2]["figures"].as_array().unwrap().clone();
    move |name| {
        let found = figures.iter().find(|figure| figure["name"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {figures:?}"))["value"].as_f64().unwrap()
    }
}

#[test]
fn the_bare_store_answers_the_load_right_in_every_round() {
    let report = report(&["--scenario=loop-8,deep,idle", "--rounds=2", "--seconds=0.02", "--records=5000"]);
    let scenarios = report["scenarios"].as_array().unwrap();
    let names: Vec<&str> = scenarios.iter().map(|scenario| scenario["scenario"].as_str().unwrap()).collect();
    assert_eq!(names, ["loop-8", "deep", "idle"]);
    for scenario in scenarios {
        assert_eq!(scenario["failures"].as_array().unwrap().len(), 0);
        let readings = scenario["readings"].as_array().unwrap();
        assert_eq!(readings.len(), 2);
        for reading in readings {
            let figure = figures(reading);
            if scenario["scenario"] == "idle" {
                assert!(figure("resident MiB") > 0.5 && figure("ready after ms") > 0.0);
                continue;
            }
            for operation in ["insert", "lookup", "remove"] {
                let named = |what: &str| figure(&format!("{operation} {what}"));
                assert!(named("K op/s") > 0.0 && named("server CPU us/op") > 0.0);
                assert!(named("p50 us") <= named("p99 us") && named("p99 us") <= named("p99.9 us"));
            }
        }
        // There are no figures for the targets.
        assert!(scenario["verdicts"].as_array().unwrap().iter().all(|verdict| verdict["figure"].is_null()));
    }
}

#[test]
fn rust_client_reads_its_inserts_from_bare_store() {
    let report = report(&["--scenario=batching", "--rounds=1", "--seconds=0.1", "--records=5000"]);
    let scenario = &report["scenarios"][0];
    assert_eq!(scenario["failures"].as_array().unwrap().len(), 0);
    let readings = scenario["readings"].as_array().unwrap();
    let labels: Vec<&str> = readings.iter().map(|reading| reading[0].as_str().unwrap()).collect();
    assert_eq!(labels, ["bare, one", "bare, many", "bare, 1 ms"]);
    assert!(readings.iter().all(|reading| figures(reading)("insert K op/s") > 0.0));
}

#[test]
fn invalid_argument_is_named_before_any_run() {
    for (arguments, named) in [
        (&["--scenario=loop"][..], "loop-1, loop-8"),
        (&["--records=0"], "--records 0"),
        (&["--rounds=0"], "--rounds 0"),
        (&["--seconds=0"], "--seconds 0"),
        (&["--server-core=4095"], "core 4095"),
    ] {
        let output = bench(arguments);
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(printed.contains(named), "{arguments:?}: {printed}");
    }
}

#[test]
fn killed_driver_leaves_no_processes() {
    let arguments = ["--scenario=loop-1", "--only=bare", "--rounds=1", "--seconds=60", "--records=1000"];
    let mut driver =
        Command::new(PROGRAM).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The run, and its server.
    let family = eventually(|| {
        let runs = children(driver.id());
        let servers: Vec<u32> = runs.iter().flat_map(|run| children(*run)).collect();
        (!servers.is_empty()).then(|| [runs, servers].concat())
    });
    driver.kill().unwrap();
    driver.wait().unwrap();
    eventually(|| family.iter().all(|pid| !is_alive(*pid)).then_some(()));
}

/// Polls until there is a result, at most half a minute.
fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    #[expect(clippy::disallowed_methods, reason = "a test of processes waits for them")]
    let (now, pause) = (Instant::now, || std::thread::sleep(Duration::from_millis(10)));
    let deadline = now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(now() < deadline, "waited for half a minute");
        pause();
    }
}

fn children(of: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    list.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Whether the process runs; a zombie does not.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with(['Z', 'X']))
}
