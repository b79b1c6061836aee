//! `cargo xtask bench resp`: a node and redis-server under redis-benchmark, the same client for
//! both.
//!
//! Both servers are started once, pinned to core 0, with the client on core 1; only one is used at
//! a time. A round runs every test on both, one right after the other. The report has the median
//! and range of the ratios within each round. Neither server writes to a disk.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a benchmark: it starts programs and prints a table"
)]

mod servers;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use bench_common::{Machine, Spread};
use serde_json::{Value, json};

use servers::Server;

/// Default number of rounds.
const ROUNDS: usize = 7;

/// The tests: name, arguments of redis-benchmark, requests, and the targeted ratio to redis.
const TESTS: [Test; 8] = [
    Test { name: "SET, depth 1", words: &["-t", "set", "-c", "1", "-P", "1"], requests: 20_000, goal: 1.0 },
    Test { name: "GET, depth 1", words: &["-t", "get", "-c", "1", "-P", "1"], requests: 20_000, goal: 1.0 },
    Test {
        name: "SET, depth 32",
        words: &["-t", "set", "-c", "8", "-P", "32"],
        requests: 400_000,
        goal: 1.3,
    },
    Test {
        name: "GET, depth 32",
        words: &["-t", "get", "-c", "8", "-P", "32"],
        requests: 400_000,
        goal: 1.3,
    },
    Test {
        name: "INCR, depth 32",
        words: &["-t", "incr", "-c", "8", "-P", "32"],
        requests: 400_000,
        goal: 1.0,
    },
    Test {
        name: "RPUSH, depth 32",
        words: &["-t", "rpush", "-c", "8", "-P", "32"],
        requests: 300_000,
        goal: 1.0,
    },
    Test {
        name: "LRANGE 100, depth 8",
        words: &["-c", "8", "-P", "8", "lrange", "list", "0", "99"],
        requests: 40_000,
        goal: 1.0,
    },
    Test {
        name: "MSET of 10, depth 8",
        words: &["-t", "mset", "-c", "8", "-P", "8"],
        requests: 60_000,
        goal: 1.0,
    },
];

struct Test {
    name: &'static str,
    words: &'static [&'static str],
    requests: usize,
    goal: f64,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("bench resp: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let usage = || "usage: cargo xtask bench resp [--rounds N] [--json FILE]".to_owned();
    let (mut rounds, mut json) = (ROUNDS, None);
    let mut args = std::env::args().skip(1);
    while let Some(word) = args.next() {
        let value = args.next().ok_or_else(usage)?;
        match word.as_str() {
            "--rounds" => rounds = value.parse().ok().filter(|rounds| *rounds > 0).ok_or_else(usage)?,
            "--json" => json = Some(PathBuf::from(value)),
            _ => return Err(usage()),
        }
    }
    let machine = Machine::look().map_err(|error| error.to_string())?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (ours, redis) = (Server::zerohop(folder.path())?, Server::redis(folder.path())?);
    // The LRANGE test of redis-benchmark fills its list by LPUSH, which a node does not support.
    for server in [&ours, &redis] {
        fill(server)?;
    }
    let mut figures = vec![(Vec::new(), Vec::new()); TESTS.len()];
    for _ in 0..rounds {
        for (test, (here, there)) in TESTS.iter().zip(&mut figures) {
            here.push(measure(&ours, test)?);
            there.push(measure(&redis, test)?);
        }
    }
    println!("| redis-benchmark | zerohop, K/s | redis, K/s | ratio: median (least to greatest) | goal |");
    println!("| --- | ---: | ---: | --- | ---: |");
    for (test, (here, there)) in TESTS.iter().zip(&figures) {
        let ratios = here.iter().zip(there).map(|(here, there)| here / there);
        let median =
            |figures: &[f64]| Spread::of(figures.iter().copied()).map_or(0.0, |spread| spread.median / 1e3);
        let Some(ratio) = Spread::of(ratios) else { continue };
        println!(
            "| {} | {:.0} | {:.0} | {:.2} ({:.2} to {:.2}) | {:.1} |",
            test.name,
            median(here),
            median(there),
            ratio.median,
            ratio.least,
            ratio.greatest,
            test.goal
        );
    }
    println!(
        "\n{rounds} rounds, servers on core 0, redis-benchmark on core 1, values of 132 bytes. {machine}"
    );
    if let Some(path) = json {
        let text = report(&machine, rounds, &figures).to_string();
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Requests per second of one test in each round: of the node, and of redis.
type TestRates = (Vec<f64>, Vec<f64>);

/// Everything measured, in the form that `cargo xtask bench report` reads. `figures`: of each test.
fn report(machine: &Machine, rounds: usize, figures: &[TestRates]) -> Value {
    let rates = |name: &str, of: fn(&TestRates) -> &Vec<f64>| {
        let spread = |both| Spread::of(of(both).iter().map(|rate| rate / 1e3));
        let figures: Vec<Value> = TESTS
            .iter()
            .zip(figures)
            .map(|(test, both)| json!([format!("{}, K/s", test.name), spread(both)]))
            .collect();
        json!({ "label": name, "figures": figures })
    };
    let verdicts: Vec<Value> = TESTS
        .iter()
        .zip(figures)
        .filter_map(|(test, (here, there))| {
            let ratio = Spread::of(here.iter().zip(there).map(|(here, there)| here / there))?;
            Some(json!({
                "what": format!("{}: zerohop over redis", test.name),
                "figure": ratio,
                "bound": { "at_least": test.goal },
                "is_met": ratio.median >= test.goal,
            }))
        })
        .collect();
    json!({
        "machine": machine,
        "missing": [],
        "scenarios": [{
            "scenario": "redis-benchmark",
            "about": "One node and redis-server under the same client, values of 132 bytes, nothing on a disk.",
            "rounds": rounds,
            "contenders": [rates("zerohop", |both| &both.0), rates("redis", |both| &both.1)],
            "verdicts": verdicts,
            "failures": [],
        }],
    })
}

/// Creates a list of a hundred values.
fn fill(server: &Server) -> Result<(), String> {
    let value = "v".repeat(132);
    let status = Command::new("redis-cli")
        .args(["-p", &server.port.to_string(), "rpush", "list"])
        .args(vec![value; 100])
        .output()
        .map_err(|error| format!("redis-cli cannot be started: {error}; run bench/resp/install"))?;
    if status.status.success() { Ok(()) } else { Err(format!("{} takes no list", server.name)) }
}

/// Requests per second.
fn measure(server: &Server, test: &Test) -> Result<f64, String> {
    let output = Command::new("taskset")
        .args(["-c", "1", "redis-benchmark", "--csv", "-d", "132", "-p", &server.port.to_string()])
        .args(["-n", &test.requests.to_string()])
        .args(test.words)
        .output()
        .map_err(|error| format!("redis-benchmark cannot be started: {error}; run bench/resp/install"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // "GET","48309.18","0.020",… after a line of column names.
    let figure = text.lines().last().and_then(|line| line.split("\",\"").nth(1)?.parse().ok());
    figure.ok_or_else(|| {
        format!(
            "{} of {}: no figure in\n{text}{}",
            test.name,
            server.name,
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_has_a_figure_and_a_verdict_of_each_test() {
        let machine = Machine::look().unwrap();
        let figures = vec![(vec![2000.0, 4000.0], vec![1000.0, 1000.0]); TESTS.len()];
        let report = report(&machine, 2, &figures);
        let scenario = &report["scenarios"][0];
        let of = |contender: usize| scenario["contenders"][contender]["figures"].as_array().unwrap();
        assert_eq!((of(0).len(), of(1).len()), (TESTS.len(), TESTS.len()));
        assert_eq!(of(0)[0], json!(["SET, depth 1, K/s", { "median": 3.0, "least": 2.0, "greatest": 4.0 }]));
        let verdict = &scenario["verdicts"][2];
        assert_eq!((&verdict["bound"], &verdict["is_met"]), (&json!({ "at_least": 1.3 }), &json!(true)));
        assert_eq!(verdict["figure"], json!({ "median": 3.0, "least": 2.0, "greatest": 4.0 }));
        assert!(report["machine"]["cpu"].is_string());
    }
}
