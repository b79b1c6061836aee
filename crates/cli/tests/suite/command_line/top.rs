//! `zerohop top` shows the activity of a node.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Instant;

use rustix::process::{Signal, kill_process};
use rustix::termios::tcgetattr;
use serde_json::Value;

use crate::support::process::RunningProcess;
use crate::support::serving::{ServingProgram, code, stderr, zerohop};
use crate::support::terminal::{PseudoTerminal, TerminalProgram};
use crate::support::{GIVE_UP_AFTER, folder, wait_for};

#[test]
fn top_prints_operations_per_interval_as_rates() {
    let cluster = ServingProgram::in_memory();
    let mut command = zerohop(&["top", "--json", "--interval", "500ms", "--endpoint", cluster.endpoint()]);
    let mut child = RunningProcess::start(command.stdout(Stdio::piped()));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut answered = 0.0;
    let began = Instant::now();
    for round in 0.. {
        cluster.ok(&["kv", "insert", &format!("k{round}"), "v"]);
        let report: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let (node, total) = (&report["nodes"][0], &report["total"]);
        assert_eq!((&node["state"], &node["figures"]), (&"up".into(), total), "{report}");
        let seconds = report["seconds"].as_f64().unwrap();
        assert!(seconds > 0.0, "{report}");
        answered += total["answers_per_s"].as_f64().unwrap() * seconds;
        if answered >= 3.0 && total["records"].as_f64() >= Some(3.0) && total["batch_us_p50"].is_number() {
            break;
        }
        assert!(began.elapsed() < GIVE_UP_AFTER, "{report}");
    }
    kill_process(child.pid(), Signal::INT).unwrap();
    assert_eq!(child.ended().code(), Some(0));
}

#[test]
fn top_counts_commands_of_redis_clients() {
    let cluster = ServingProgram::in_memory();
    let status = cluster.json(&["status"]);
    let mut redis = TcpStream::connect(status["nodes"][0]["instances"][0]["addr"].as_str().unwrap()).unwrap();
    let mut command = zerohop(&["top", "--json", "--interval", "200ms", "--endpoint", cluster.endpoint()]);
    let mut child = RunningProcess::start(command.stdout(Stdio::piped()));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut answered = 0.0;
    let began = Instant::now();
    while answered < 3.0 {
        redis.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n").unwrap();
        let mut reply = [0; 5];
        redis.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+OK\r\n");
        let report: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        answered += report["total"]["answers_per_s"].as_f64().unwrap() * report["seconds"].as_f64().unwrap();
        assert!(began.elapsed() < GIVE_UP_AFTER, "{report}");
    }
    kill_process(child.pid(), Signal::INT).unwrap();
    assert_eq!(child.ended().code(), Some(0));
}

/// Inserts into a keyspace until `top` has reported some of the insertions. Returns the numbers of waits and the times of all
/// stages in the reports.
fn waits_of_inserts(cluster: &ServingProgram, keyspace: &str) -> BTreeMap<String, (f64, f64)> {
    let endpoint = cluster.endpoint();
    let mut command = zerohop(&["top", "--waits", "--json", "--interval", "500ms", "--endpoint", endpoint]);
    let mut child = RunningProcess::start(command.stdout(Stdio::piped()));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut waits = BTreeMap::new();
    let began = Instant::now();
    for round in 0.. {
        cluster.ok(&["kv", "insert", "-k", keyspace, &format!("k{round}"), "v"]);
        let report: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let seconds = report["seconds"].as_f64().unwrap();
        for stage in report["total"]["waits"].as_array().expect("stages") {
            let of_interval = |figure: &str| stage[figure].as_f64().unwrap() * seconds;
            let (count, time) =
                waits.entry(stage["stage"].as_str().unwrap().to_owned()).or_insert((0.0, 0.0));
            *count += of_interval("waits_per_s");
            *time += of_interval("seconds_per_s");
            assert_eq!(stage["us_p99"].is_number(), stage["waits_per_s"].as_f64() > Some(0.0), "{report}");
        }
        if waits["socket"].0 >= 2.5 {
            break;
        }
        assert!(began.elapsed() < GIVE_UP_AFTER, "{report}");
    }
    kill_process(child.pid(), Signal::INT).unwrap();
    assert_eq!(child.ended().code(), Some(0));
    waits
}

#[test]
fn waits_for_flushes_are_those_of_sync_keyspaces() {
    let folder = folder();
    let data = folder.path().join("data");
    let cluster = ServingProgram::up(&["--instances", "1", "--data", data.to_str().unwrap()]);
    for durability in ["sync", "memory"] {
        cluster.ok(&["keyspace", "create", durability, "--durability", durability]);
    }
    let synced = waits_of_inserts(&cluster, "sync");
    assert_eq!(synced.len(), 6, "{synced:?}");
    let (count, time) = synced["flush"];
    assert!(count > 0.0 && time > 0.0, "{synced:?}");
    assert_eq!(synced["peers"], (0.0, 0.0), "{synced:?}");
    assert!(synced["queue"].0 > 0.0 && synced["log"].0 > 0.0, "{synced:?}");
    let volatile = waits_of_inserts(&cluster, "memory");
    assert_eq!((volatile["flush"], volatile["peers"]), ((0.0, 0.0), (0.0, 0.0)), "{volatile:?}");
    assert!(volatile["log"].0 > 0.0, "{volatile:?}");

    let printed = cluster.ok(&["top", "--waits", "--once", "--interval", "100ms"]);
    let (_, stages) = printed.split_once("waits in").expect("a table of stages");
    assert!(stages.contains(&format!("1 {}", cluster.endpoint())), "{printed}");
    assert!(printed.lines().all(|line| line.chars().count() <= 80), "{printed}");
    let usual = &cluster.json(&["top", "--once", "--interval", "100ms"])["total"];
    assert!(usual["waits"].is_null(), "{usual}");
}

#[test]
fn top_prints_table_once_or_until_stopped() {
    let cluster = ServingProgram::in_memory();
    let printed = cluster.ok(&["top", "--once", "--interval", "100ms"]);
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines[0].starts_with("node") && lines[0].contains("answers/s"), "{printed}");
    assert!(lines[1].starts_with(&format!("1 {}", cluster.endpoint())), "{printed}");
    assert!(lines[2].starts_with("over 0.1 s"), "{printed}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{printed}");
}

#[test]
fn q_key_ends_top_on_a_terminal() {
    let cluster = ServingProgram::in_memory();
    let mut top = TerminalProgram::on_all_streams(&cluster, &["top", "--interval", "100ms"]);
    wait_for("a table", || top.output(), |screen| screen.contains("q ends"));
    top.types("xq");
    let (screen, _, output) = top.end();
    assert_eq!(code(&output), 0, "{screen:?}");
    assert!(!screen.contains("xq"), "keys are not shown: {screen:?}");
}

#[test]
fn interrupted_top_restores_the_terminal_and_says_that_nothing_was_changed() {
    let cluster = ServingProgram::in_memory();
    for (arguments, printed) in [
        (&["top", "--interval", "1d", "--once"][..], ""),
        (&["top", "--interval", "1d"], ""),
        (&["top", "--interval", "100ms"], "q ends"),
    ] {
        let terminal = PseudoTerminal::open();
        let modes = || tcgetattr(&terminal.terminal).unwrap().local_modes;
        let before = modes();
        let stream = || terminal.terminal.try_clone().unwrap();
        let mut command = zerohop(arguments);
        command.env("ZEROHOP_ENDPOINT", cluster.endpoint()).stdin(stream()).stdout(stream());
        let top = RunningProcess::start(command.stderr(Stdio::piped()));
        if printed.is_empty() {
            let path = format!("/proc/{}/status", top.id());
            let handles = |status: &String| {
                let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
                u64::from_str_radix(mask, 16).unwrap() >> (Signal::TERM.as_raw() - 1) & 1 == 1
            };
            wait_for("it handles SIGTERM", || std::fs::read_to_string(&path).unwrap(), handles);
        } else {
            let mut screen = BufReader::new(terminal.controller.try_clone().unwrap());
            let mut line = String::new();
            while !line.contains(printed) {
                line.clear();
                assert_ne!(screen.read_line(&mut line).unwrap(), 0);
            }
            assert_ne!(modes(), before, "keys are not echoed");
        }
        kill_process(top.pid(), Signal::TERM).unwrap();
        let output = top.output();
        assert_eq!(modes(), before, "{arguments:?}");
        // A signal is the usual end of a table that is redrawn.
        let expected = match printed.is_empty() {
            true => (130, "zerohop: interrupted; nothing was changed\n"),
            false => (0, ""),
        };
        assert_eq!((code(&output), stderr(&output).as_str()), expected, "{arguments:?}");
    }
}

#[test]
fn secured_cluster_reveals_status_only_with_secret() {
    let folder = crate::support::folder();
    let path = folder.path().join("secret");
    let secret = path.to_str().unwrap();
    assert_eq!(code(&zerohop(&["secret", "new", secret]).output().unwrap()), 0);
    let cluster = ServingProgram::up(&["--memory", "--instances", "1", "--secret-file", secret]);
    let known = cluster.run(&["top", "--once", "--json", "--interval", "100ms", "--secret-file", secret]);
    let report: Value = serde_json::from_slice(&known.stdout).unwrap();
    assert!(report["nodes"][0]["figures"]["connections"].is_number(), "{report}");
    let unknown = cluster.run(&["top", "--once", "--interval", "100ms"]);
    assert_eq!(code(&unknown), 3, "{unknown:?}");
    assert!(stderr(&unknown).contains("secret"), "{unknown:?}");
}
