//! `zerohop watch`: changes as they are committed, and cursors.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cluster::nodes::scrape;
use crate::support::process::pause;
use crate::support::serving::{ServingProgram, code, stderr, stdout, zerohop};
use crate::support::wait_for;

/// A watch that runs, and its lines.
struct RunningWatch {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl RunningWatch {
    /// Starts a watch, and waits for its first mark: from then on it misses nothing.
    fn start(cluster: &ServingProgram, arguments: &[&str]) -> RunningWatch {
        let all = [&["watch", "--json", "--marks", "--endpoint", cluster.endpoint()], arguments].concat();
        let mut process = zerohop(&all).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut watch = RunningWatch { process, lines };
        assert_eq!(watch.next()["event"], "mark");
        watch
    }

    fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().expect("it goes on").unwrap()).unwrap()
    }

    /// The next change.
    fn change(&mut self) -> Value {
        loop {
            let line = self.next();
            if line["event"] != "mark" {
                return line;
            }
        }
    }

    fn interrupt(mut self) {
        kill_process(Pid::from_child(&self.process), Signal::INT).unwrap();
        assert_eq!(self.process.wait().unwrap().code(), Some(130));
    }
}

#[test]
fn changes_are_printed_in_order_with_versions_and_causes() {
    let cluster = ServingProgram::in_memory();
    let refused = cluster.run(&["watch"]);
    assert_eq!(code(&refused), 3);
    assert!(stderr(&refused).contains("keyspace alter NAME --history 1h"), "{refused:?}");
    cluster.ok(&["keyspace", "alter", "default", "--history", "10m", "--history-bytes", "256KiB"]);
    let shown = cluster.json(&["keyspace", "show", "default"]);
    assert_eq!((&shown["history_ms"], &shown["history_bytes"]), (&600_000.into(), &262_144.into()));
    let mut watch = RunningWatch::start(&cluster, &["k"]);
    cluster.ok(&["kv", "insert", "other", "x"]);
    cluster.ok(&["kv", "insert", "key", "one"]);
    let first = watch.change();
    assert_eq!(
        (&first["event"], &first["key"], &first["value"], &first["type"], &first["cause"]),
        (&"put".into(), &"key".into(), &"one".into(), &"bytes".into(), &"write".into())
    );
    assert!(first.get("before").is_none());
    cluster.ok(&["kv", "extend", "key", "+two"]);
    let second = watch.change();
    assert_eq!((&second["value"], &second["before"]), (&"one+two".into(), &first["version"]));
    cluster.ok(&["kv", "insert", "key", "gone", "--ttl", "300ms"]);
    assert_eq!(watch.change()["before"], second["version"]);
    let expired = watch.change();
    assert_eq!((&expired["event"], &expired["cause"]), (&"remove".into(), &"expiry".into()));
    assert!(expired.get("value").is_none());
    cluster.ok(&["kv", "append", "kinds", "a", "b"]);
    let list = watch.change();
    assert_eq!((&list["type"], list.get("value")), (&"list".into(), None));
    watch.interrupt();
}

#[test]
fn a_cursor_continues_where_the_command_ended() {
    let cluster = ServingProgram::in_memory();
    let folder = crate::support::folder();
    let cursor = folder.path().join("position");
    let cursor = cursor.to_str().unwrap();
    cluster.ok(&["keyspace", "alter", "default", "--history", "1h"]);
    let mut watch = RunningWatch::start(&cluster, &["--cursor", cursor]);
    cluster.ok(&["kv", "insert", "a", "1"]);
    assert_eq!(watch.change()["value"], "1");
    let second = cluster.run(&["watch", "--cursor", cursor]);
    assert_eq!(
        (code(&second), stderr(&second).contains("another watch keeps its position in")),
        (3, true),
        "{second:?}"
    );
    watch.interrupt();
    for (key, value) in [("b", "2"), ("a", "3"), ("c", "4")] {
        cluster.ok(&["kv", "insert", key, value]);
    }
    cluster.ok(&["keyspace", "split", "default"]);
    cluster.ok(&["kv", "remove", "b"]);
    let printed = cluster.ok(&["watch", "--cursor", cursor, "--limit", "4"]);
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["put\ta\t3", "put\tb\t2", "put\tc\t4", "removed\tb"]);
    cluster.ok(&["kv", "insert", "d", "5"]);
    assert_eq!(cluster.ok(&["watch", "--cursor", cursor, "--limit", "1", "--no-values"]), "put\td\n");

    cluster.ok(&["keyspace", "create", "other", "--history", "1h"]);
    let foreign = cluster.run(&["watch", "-k", "other", "--cursor", cursor]);
    assert_eq!((code(&foreign), stderr(&foreign).contains("another keyspace")), (3, true), "{foreign:?}");
    std::fs::write(cursor, "nonsense").unwrap();
    let damaged = cluster.run(&["watch", "--cursor", cursor]);
    assert_eq!((code(&damaged), stderr(&damaged).contains("no cursor of a watch")), (3, true), "{damaged:?}");
}

/// The records as of one moment, then the changes: while a writer increments counters, no number is printed twice and none is left out.
#[test]
fn records_come_before_the_changes_since() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["keyspace", "alter", "default", "--history", "10m"]);
    cluster.ok(&["kv", "insert", "other", "x"]);
    cluster.ok(&["kv", "insert", "n", "0"]);
    cluster.ok(&["kv", "append", "n-list", "x"]);
    let writer = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 1..=40 {
                cluster.ok(&["kv", "insert", "n", &number.to_string()]);
            }
        });
        let folder = crate::support::folder();
        let cursor = folder.path().join("cursor");
        let cursor = cursor.to_str().unwrap();
        let arguments =
            ["watch", "--json", "--records", "--cursor", cursor, "--endpoint", cluster.endpoint(), "n"];
        let mut process = zerohop(&arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut watch = RunningWatch { process, lines };
        let mut next = None;
        let mut records = 0;
        while next != Some(41) {
            let line = watch.next();
            records += u32::from(line["event"] == "record");
            if line["key"] == "n-list" {
                assert_eq!(
                    (&line["event"], &line["type"], &line["value"]),
                    (&"record".into(), &"list".into(), &Value::Null)
                );
                continue;
            }
            assert_eq!(line["key"], "n", "{line}");
            let number: u32 = line["value"].as_str().unwrap().parse().unwrap();
            assert_eq!(
                (next.unwrap_or(number), line["event"] == "record"),
                (number, next.is_none()),
                "{line}"
            );
            next = Some(number + 1);
        }
        watch.interrupt();
        assert_eq!(records, 2);
        cluster.ok(&["kv", "insert", "n", "end"]);
        let rest = cluster.ok(&["watch", "--records", "--cursor", cursor, "--limit", "1", "n"]);
        assert_eq!(rest, "put\tn\tend\n", "the cursor continues without the records");
        writer.join()
    });
    writer.unwrap();
}

/// A file that never ends, one whose opening waits, and one that cannot be written are refused before the watch begins.
#[test]
fn unusable_cursor_files_are_refused_at_once() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["keyspace", "alter", "default", "--history", "10m"]);
    let folder = crate::support::folder();
    let pipe = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let missing = folder.path().join("missing/cursor");
    for path in
        ["/dev/full", pipe.to_str().unwrap(), folder.path().to_str().unwrap(), missing.to_str().unwrap()]
    {
        let refused = cluster.run(&["watch", "--json", "--cursor", path]);
        assert_eq!(code(&refused), 3, "{path}: {refused:?}");
        let printed: Value = serde_json::from_slice(&refused.stdout).unwrap();
        assert_eq!(printed["reason"], "cursor", "{printed}");
    }
    let mistyped = cluster.run(&["watch", "--recrods"]);
    assert_eq!(code(&mistyped), 2, "it is no prefix: {mistyped:?}");
}

#[test]
fn an_error_is_the_last_line_of_json_after_changes_too() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["keyspace", "alter", "default", "--history", "10m"]);
    let mut watch = RunningWatch::start(&cluster, &[]);
    cluster.ok(&["kv", "insert", "k", "v"]);
    assert_eq!(watch.change()["key"], "k");
    cluster.ok(&["keyspace", "alter", "default", "--history", "0s"]);
    let last = watch.change();
    assert_eq!((&last["done"], &last["reason"]), (&false.into(), &"no_history".into()), "{last}");
    assert_eq!(watch.process.wait().unwrap().code(), Some(3));
}

#[test]
fn a_position_that_is_no_longer_kept_is_refused() {
    let cluster = ServingProgram::in_memory();
    let folder = crate::support::folder();
    let cursor = folder.path().join("position");
    let cursor = cursor.to_str().unwrap();
    cluster.ok(&["keyspace", "create", "few", "--partitions", "1", "--history", "1s"]);
    let watch = RunningWatch::start(&cluster, &["-k", "few", "--cursor", cursor]);
    watch.interrupt();
    cluster.ok(&["kv", "insert", "-k", "few", "a", "1"]);
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    let gone = cluster.run(&["watch", "-k", "few", "--cursor", cursor, "--json"]);
    assert_eq!(code(&gone), 3, "{gone:?}");
    let refusal: Value = serde_json::from_str(&stdout(&gone)).unwrap();
    assert_eq!(refusal["reason"], "history_gone", "{refusal}");
    let way = format!(
        "watch from then on: remove the file {cursor} of the cursor, and start the watch again with --records"
    );
    assert!(stderr(&gone).contains(&way), "{gone:?}");
    std::fs::remove_file(cursor).unwrap();
    let again = ["watch", "-k", "few", "--cursor", cursor, "--records", "--limit", "0"];
    assert!(stdout(&cluster.run(&again)).contains('a'), "{again:?}");
    for (arguments, part) in [
        (&["--history", "8d"][..], "at most 7 days"),
        (&["--history", "1h", "--history-bytes", "1KiB"], "262144"),
    ] {
        let all = [&["keyspace", "create", "bad"], arguments].concat();
        let refused = cluster.run(&all);
        assert!(code(&refused) != 0 && stderr(&refused).contains(part), "{refused:?}");
    }
}

/// The watch of a prefix in the list: changes behind and partitions, added up over the two instances; `None`: it is not listed.
fn listed(cluster: &ServingProgram, prefix: &str) -> Option<(u64, u64)> {
    let all = cluster.list(&["watch", "list"]);
    let of_prefix: Vec<&Value> =
        all.as_array().unwrap().iter().filter(|watch| watch["prefix"] == prefix).collect();
    for watch in &of_prefix {
        assert_eq!(
            (&watch["keyspace"], &watch["token"], &watch["secret"]),
            (&"default".into(), &Value::Null, &false.into())
        );
        assert!(watch["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{watch}");
        assert_eq!((&watch["history_gone"], &watch["node"]), (&0.into(), &1.into()), "{watch}");
        assert_eq!(watch["lag_ms"] == 0, watch["changes_behind"] == 0, "{watch}");
    }
    let sum = |field: &str| of_prefix.iter().map(|watch| watch[field].as_u64().unwrap()).sum();
    (!of_prefix.is_empty()).then(|| (sum("changes_behind"), sum("partitions")))
}

/// A watch that is stopped falls behind, and one that follows does not.
#[test]
fn watches_are_listed_with_how_far_they_are_behind() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["keyspace", "alter", "default", "--history", "10m"]);
    let heading = cluster.ok(&["watch", "list"]);
    assert_eq!((heading.lines().count(), heading.starts_with("keyspace\t")), (1, true), "{heading}");
    let mut follows = RunningWatch::start(&cluster, &["a"]);
    let stopped = RunningWatch::start(&cluster, &["b"]);
    let partitions = cluster.json(&["keyspace", "show", "default"])["partitions"].as_u64().unwrap();
    let whole = Some((0, partitions));
    wait_for(
        "both are up to date",
        || ["a", "b"].map(|prefix| listed(&cluster, prefix)),
        |found| *found == [whole; 2],
    );
    pause(Pid::from_child(&stopped.process));
    for number in ["1", "2", "3"] {
        cluster.ok(&["kv", "insert", "a", number]);
        cluster.ok(&["kv", "insert", "b", number]);
        assert_eq!(follows.change()["value"], number);
    }
    wait_for(
        "one is behind",
        || ["a", "b"].map(|prefix| listed(&cluster, prefix)),
        |found| found[0] == whole && found[1].is_some_and(|(behind, all)| behind >= 3 && all == partitions),
    );
    let shown = cluster.ok(&["watch", "list", "-k", "default"]);
    let keys = |line: &str| line.split('\t').nth(3).map(str::to_owned);
    assert_eq!(
        shown.lines().nth(1).and_then(keys).as_deref(),
        Some("\"b\""),
        "the last one is first: {shown}"
    );
    let metrics = scrape(cluster.endpoint());
    let value = |name: &str| {
        let name = format!("zerohop_{name}{{keyspace=\"default\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
        line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse::<f64>().unwrap()
    };
    assert!((2.0..=4.0).contains(&value("keyspace_watches")), "two watches, at two instances at most");
    assert!(value("keyspace_watch_lag_seconds") > 0.0);
    assert_eq!(
        cluster.list(&["watch", "list", "-k", "default"]).as_array().unwrap().len(),
        shown.lines().count() - 1
    );

    kill_process(Pid::from_child(&stopped.process), Signal::CONT).unwrap();
    stopped.interrupt();
    wait_for("its end", || listed(&cluster, "b"), Option::is_none);
    assert_eq!(listed(&cluster, "a"), whole);
    follows.interrupt();
    wait_for("no watch", || cluster.ok(&["watch", "list", "--json"]), String::is_empty);

    let unknown = cluster.run(&["watch", "list", "-k", "none"]);
    assert!(code(&unknown) != 0 && stderr(&unknown).contains("no keyspace \"none\""), "{unknown:?}");
    assert_eq!(cluster.ok(&["watch", "--limit", "0", "--", "list"]), "", "a prefix");
}
