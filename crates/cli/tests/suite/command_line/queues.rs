//! `zerohop queue`: queues through the program.

use std::io::Write;
use std::process::Stdio;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::cluster::nodes::metric;
use crate::support::process::{RunningProcess, pause};
use crate::support::serving::{ServingProgram, code, output, stderr, stdout, zerohop};
use crate::support::terminal::TerminalProgram;
use crate::support::wait_for;

/// Runs a command that is about queues; returns its exit code and both outputs.
fn queue(cluster: &ServingProgram, arguments: &[&str], input: &[u8]) -> (i32, String, String) {
    let all = [&["queue"], arguments, &["--endpoint", cluster.endpoint()]].concat();
    let ended = output(zerohop(&all), input);
    (code(&ended), stdout(&ended), stderr(&ended))
}

fn done(cluster: &ServingProgram, arguments: &[&str]) -> String {
    let (code, out, error) = queue(cluster, arguments, b"");
    assert_eq!(code, 0, "{arguments:?}: {error}");
    out
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The JSON of a command that succeeds.
fn json(cluster: &ServingProgram, arguments: &[&str]) -> Vec<Value> {
    lines(&done(cluster, &[arguments, &["--json"]].concat()))
}

/// The reason of a negative answer.
fn reason(cluster: &ServingProgram, arguments: &[&str]) -> String {
    let (code, out, error) = queue(cluster, &[arguments, &["--json"]].concat(), b"");
    let answer = lines(&out).pop().unwrap_or_else(|| panic!("{arguments:?}: {error}"));
    assert_eq!((code, &answer["done"]), (1, &json!(false)), "{arguments:?}: {answer}");
    answer["reason"].as_str().unwrap().to_owned()
}

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object[key].as_str().unwrap_or_else(|| panic!("{key} of {object}"))
}

/// Pops a message; returns its value and receipt. It waits, also for the end of a lease or a delay.
fn pop(cluster: &ServingProgram, more: &[&str]) -> (String, String) {
    let popped = json(cluster, &[&["pop", "jobs", "--wait", "2m"], more].concat());
    assert_eq!(popped.len(), 1, "{popped:?}");
    (text(&popped[0], "value").to_owned(), text(&popped[0], "receipt").to_owned())
}

#[test]
fn messages_are_pushed_popped_and_acknowledged() {
    let cluster = ServingProgram::in_memory();
    let created = &json(&cluster, &["create", "jobs", "--partitions", "2"])[0];
    assert_eq!((&created["queue"], &created["lease_ms"]), (&json!("jobs"), &json!(30_000)));
    assert_eq!((&created["tries"], &created["names_ms"]), (&json!(20), &json!(300_000)));
    assert_eq!(created["partitions"].as_array().unwrap().len(), 2);

    assert_eq!(done(&cluster, &["push", "jobs", "a", "b", "--group", "g"]), "2 messages pushed\n");
    let (code, out, error) = queue(&cluster, &["push", "jobs", "--group", "g"], b"c\n\nd");
    assert_eq!((code, out.as_str()), (0, "3 messages pushed\n"), "{error}");
    assert_eq!(queue(&cluster, &["push", "jobs"], b"").1, "0 messages pushed\n");
    let none = &json(&cluster, &["push", "jobs"])[0];
    assert_eq!(*none, json!({"queue": "jobs", "done": true, "messages": 0, "duplicates": 0, "ids": []}));
    let stats = &json(&cluster, &["stats", "jobs"])[0];
    assert_eq!((&stats["depth"], &stats["leased"], &stats["partial"]), (&json!(5), &json!(0), &json!(false)));
    assert!(stats["oldest_ms"].is_u64(), "{stats}");

    // A message is on standard output, and its receipt on standard error.
    let (code, out, error) = queue(&cluster, &["pop", "jobs", "--lease", "1h"], b"");
    let receipt = error.trim_end().strip_prefix("receipt ").unwrap_or_else(|| panic!("{error}")).to_owned();
    assert_eq!((code, out.as_str()), (0, "a\n"));
    let stats = &json(&cluster, &["info", "jobs"])[0];
    assert_eq!((&stats["depth"], &stats["leased"]), (&json!(5), &json!(1)));
    // The first message of the group is leased, so the others wait.
    assert_eq!(reason(&cluster, &["pop", "jobs"]), "no_message");
    assert_eq!(done(&cluster, &["ack", "jobs", &receipt, &receipt]), "1 message acknowledged\n");
    assert_eq!(reason(&cluster, &["ack", "jobs", &receipt]), "lapsed", "it is settled");

    let popped = &json(&cluster, &["pop", "jobs", "--lease", "1h"])[0];
    assert_eq!((text(popped, "value"), text(popped, "group")), ("b", "g"));
    assert_eq!((&popped["name"], &popped["tries"]), (&Value::Null, &json!(1)));
    for key in ["partition", "pushed_ms", "lease_until_ms"] {
        assert!(popped[key].is_u64(), "{key} of {popped}");
    }
    assert!(text(popped, "id").contains('-'));
    // A released message comes before the later ones of its group.
    assert_eq!(done(&cluster, &["release", "jobs", text(popped, "receipt")]), "1 message released\n");
    for expected in ["b\n", "c\n", "\n", "d\n"] {
        let (code, out, error) = queue(&cluster, &["pop", "jobs", "--wait", "2m", "--ack"], b"");
        assert_eq!((code, out.as_str(), error.as_str()), (0, expected, ""));
    }
    let stats = done(&cluster, &["stats", "jobs"]);
    let first = "jobs: 2 partitions, 0 messages, 0 leased, 0 delayed, 0 dead letters\n";
    assert!(stats.starts_with(first), "{stats}");
    assert_eq!(done(&cluster, &["list"]), first);
    assert_eq!(json(&cluster, &["ls"])[0]["finished"], json!(5));
    done(&cluster, &["drop", "jobs", "--yes"]);
    assert_eq!(done(&cluster, &["list"]), "");
}

/// A program in a pipe gets the bytes that were pushed; a terminal is not controlled by them.
#[test]
fn contents_in_a_pipe_are_those_that_were_pushed_or_appended() {
    let cluster = ServingProgram::in_memory();
    done(&cluster, &["create", "jobs"]);
    cluster.ok(&["log", "create", "events"]);
    let bytes = b"tab\t, escape \x1b[2J, \\ and \x85\xff";
    let raw = [&bytes[..], b"\n"].concat();
    for (command, name) in [("queue", "jobs"), ("log", "events")] {
        let verb = if command == "queue" { "push" } else { "append" };
        let endpoint = ["--endpoint", cluster.endpoint()];
        let pushed = output(zerohop(&[&[command, verb, name], &endpoint[..]].concat()), &raw);
        assert_eq!(code(&pushed), 0, "{pushed:?}");
    }
    let escaped = "tab\\t, escape \\x1b[2J, \\\\ and \\x85\\xff";
    let commands = [
        &["log", "read", "events"][..],
        &["queue", "pop", "jobs", "--lease", "1ms"],
        &["log", "pop", "events"],
    ];
    for command in commands {
        let printed = cluster.run(command);
        assert_eq!((code(&printed), &*printed.stdout), (0, &*raw), "{command:?}: {printed:?}");
    }
    for command in [&["log", "read", "events"][..], &["queue", "pop", "jobs", "--wait", "2m"]] {
        let (screen, _, _) = TerminalProgram::on_all_streams(&cluster, command).end();
        assert!(screen.starts_with(&format!("{escaped}\r\n")), "{command:?}: {screen:?}");
    }
}

#[test]
fn message_of_a_lapsed_lease_is_delivered_again_and_its_old_receipt_is_refused() {
    let cluster = ServingProgram::in_memory();
    done(&cluster, &["create", "jobs"]);
    done(&cluster, &["push", "jobs", "a"]);
    let (value, old) = pop(&cluster, &["--lease", "1ms"]);
    assert_eq!(value, "a");
    let popped = &json(&cluster, &["pop", "jobs", "--wait", "2m", "--lease", "1h"])[0];
    assert_eq!((text(popped, "value"), &popped["tries"]), ("a", &json!(2)));
    let receipt = text(popped, "receipt");
    for action in ["ack", "release", "extend"] {
        assert_eq!(reason(&cluster, &[action, "jobs", &old]), "lapsed", "{action}");
    }
    let (code, _, error) = queue(&cluster, &["ack", "jobs", &old], b"");
    assert!(code == 1 && error.contains("has lapsed"), "{error}");

    // An extension has a new receipt, and the old one counts no longer.
    let extended = &json(&cluster, &["extend", "jobs", receipt, "--lease", "2h"])[0];
    let new = text(extended, "new_receipt");
    assert!(extended["lease_until_ms"].as_u64() > popped["lease_until_ms"].as_u64(), "{extended}");
    assert_eq!(reason(&cluster, &["extend", "jobs", receipt]), "lapsed");
    let printed = done(&cluster, &["extend", "jobs", new, "--lease", "3h"]);
    let (code, out, error) = queue(&cluster, &["ack", "jobs", printed.trim_end(), &old], b"");
    assert_eq!((code, out.as_str()), (1, "1 message acknowledged\n"), "{error}");
    assert_eq!(json(&cluster, &["stats", "jobs"])[0]["depth"], json!(0));
}

#[test]
fn dead_letters_are_listed_pushed_again_and_removed() {
    let cluster = ServingProgram::in_memory();
    done(&cluster, &["create", "jobs", "--tries", "1"]);
    let bury = || {
        let popped = json(&cluster, &["pop", "jobs", "--limit", "10", "--lease", "1h", "--wait", "2m"]);
        for message in &popped {
            done(&cluster, &["release", "jobs", text(message, "receipt")]);
        }
        popped.len()
    };
    done(&cluster, &["push", "jobs", "a", "b", "c"]);
    assert_eq!(bury(), 3);
    assert_eq!(reason(&cluster, &["pop", "jobs"]), "no_message");
    let mut values: Vec<String> = done(&cluster, &["dead", "jobs"]).lines().map(str::to_owned).collect();
    values.sort_unstable();
    assert_eq!(values, ["a", "b", "c"]);
    let dead = &json(&cluster, &["dead", "jobs", "--limit", "1"]);
    assert_eq!((dead.len(), &dead[0]["tries"]), (1, &json!(1)));
    assert!(dead[0]["died_ms"].as_u64() >= dead[0]["pushed_ms"].as_u64(), "{dead:?}");
    let stats = &json(&cluster, &["stats", "jobs"])[0];
    assert_eq!((&stats["dead"], &stats["depth"]), (&json!(3), &json!(0)));

    let redriven = done(&cluster, &["redrive", "jobs", "--limit", "1"]);
    assert_eq!(redriven, "1 dead letter is pushed again\n");
    let redriven = json(&cluster, &["redrive", "jobs"]);
    assert_eq!(redriven, [json!({"queue": "jobs", "done": true, "messages": 2})]);
    assert_eq!(done(&cluster, &["dead", "jobs"]), "");
    assert_eq!(bury(), 3, "they can be popped again");
    assert_eq!(done(&cluster, &["purge", "jobs", "--yes"]), "3 dead letters are removed\n");
    assert_eq!(done(&cluster, &["dead", "jobs"]), "");
    assert_eq!(done(&cluster, &["redrive", "jobs"]), "0 dead letters are pushed again\n");
}

/// More dead letters than are read at once.
#[test]
fn many_dead_letters_are_pushed_again_once() {
    let cluster = ServingProgram::in_memory();
    done(&cluster, &["create", "jobs", "--tries", "1", "--partitions", "2"]);
    let input: String = (0..150).map(|number| format!("{number}\n")).collect();
    assert_eq!(queue(&cluster, &["push", "jobs"], input.as_bytes()).1, "150 messages pushed\n");
    assert_eq!(json(&cluster, &["pop", "jobs", "--limit", "150", "--lease", "1ms"]).len(), 150);
    // A pop buries what was leased once, and finds nothing else.
    while json(&cluster, &["stats", "jobs"])[0]["dead"] != json!(150) {
        assert_eq!(reason(&cluster, &["pop", "jobs"]), "no_message");
    }
    assert_eq!(done(&cluster, &["dead", "jobs", "--limit", "70"]).lines().count(), 70);
    assert_eq!(done(&cluster, &["redrive", "jobs"]), "150 dead letters are pushed again\n");
    let mut values: Vec<u32> = json(&cluster, &["pop", "jobs", "--limit", "150", "--lease", "1h"])
        .iter()
        .map(|message| text(message, "value").parse().unwrap())
        .collect();
    values.sort_unstable();
    assert!(values.into_iter().eq(0..150));
}

#[test]
fn delayed_messages_wait_and_names_are_pushed_once() {
    let cluster = ServingProgram::in_memory();
    done(&cluster, &["create", "jobs", "--names", "1h"]);
    done(&cluster, &["push", "jobs", "later", "--delay", "1h"]);
    done(&cluster, &["push", "jobs", "soon", "--delay", "1ms"]);
    assert_eq!(pop(&cluster, &["--ack"]).0, "soon");
    assert_eq!(reason(&cluster, &["pop", "jobs"]), "no_message");
    let stats = &json(&cluster, &["stats", "jobs"])[0];
    assert_eq!((&stats["depth"], &stats["delayed"]), (&json!(1), &json!(1)));

    let first = &json(&cluster, &["push", "jobs", "a", "--name", "n"])[0];
    assert_eq!((&first["messages"], &first["duplicates"]), (&json!(1), &json!(0)));
    let second = &json(&cluster, &["push", "jobs", "b", "--name", "n"])[0];
    assert_eq!((&second["messages"], &second["duplicates"]), (&json!(0), &json!(1)));
    assert_eq!(first["ids"], second["ids"]);
    let (code, out, _) = queue(&cluster, &["push", "jobs", "--name", "n"], b"c\n");
    assert_eq!((code, out.as_str()), (0, "0 messages pushed, 1 not pushed because of its name\n"));
    let popped = &json(&cluster, &["pop", "jobs", "--lease", "1h"])[0];
    assert_eq!((text(popped, "value"), text(popped, "name")), ("a", "n"));
    let (code, _, error) = queue(&cluster, &["push", "jobs", "--name", "m"], b"c\nd\n");
    assert!(code == 2 && error.contains("one message"), "{code} {error}");
    // A release with a delay counts as a delayed message.
    done(&cluster, &["release", "jobs", text(popped, "receipt"), "--delay", "1h"]);
    assert_eq!(json(&cluster, &["stats", "jobs"])[0]["delayed"], json!(2));
}

#[test]
fn negative_answers_and_bad_input_of_queues_have_reasons() {
    let cluster = ServingProgram::in_memory();
    done(&cluster, &["create", "jobs"]);
    cluster.ok(&["keyspace", "create", "ordered", "--ordered"]);
    cluster.ok(&["kv", "insert", "k", "v", "-k", "ordered"]);
    // That of no queue.
    let receipt = format!("00000000.0.1.1.1.{0}.{0}", "0a".repeat(16));
    let long_name = "n".repeat(250);
    for (arguments, expected) in [
        (&["push", "none", "a"][..], "no_queue"),
        (&["pop", "none"], "no_queue"),
        (&["ack", "none", &receipt], "no_queue"),
        (&["drop", "none", "--yes"], "no_queue"),
        (&["purge", "none", "--yes"], "no_queue"),
        (&["stats", "ordered"], "no_queue"),
        (&["dead", "default"], "no_queue"),
        (&["create", "jobs"], "exists"),
        (&["create", "ordered"], "exists"),
        (&["create", "default"], "exists"),
        (&["pop", "jobs"], "no_message"),
        (&["ack", "jobs", &receipt], "other_queue"),
        (&["extend", "jobs", &receipt], "other_queue"),
        (&["push", "jobs", "a", "--group", ""], "bad_name"),
        (&["push", "jobs", "a", "--name", &long_name], "bad_name"),
    ] {
        assert_eq!(reason(&cluster, arguments), expected, "{arguments:?}");
    }
    // A message that no queue can have, behind one that is pushed.
    let long = [&b"d\n"[..], &vec![b'x'; (2 << 20) + 1]].concat();
    let (code, out, error) = queue(&cluster, &["push", "jobs"], &long);
    assert!(code == 1 && error.contains("more than 2097152 bytes; 1 message pushed"), "{out} {error}");
    assert_eq!(pop(&cluster, &["--ack"]).0, "d");
    // Many messages are pushed in as many transactions as they need.
    let many = "0123456789\n".repeat(2_000);
    assert_eq!(queue(&cluster, &["push", "jobs"], many.as_bytes()).1, "2000 messages pushed\n");
    for arguments in [
        &["create", "x", "--partitions", "0"][..],
        &["create", "x", "--lease", "0s"],
        &["pop", "jobs", "--limit", "0"],
        &["ack", "jobs"],
        &["ack", "jobs", "nothing"],
        &["release", "jobs", &receipt[1..]],
        &["push", "jobs", "a", "b", "--name", "n"],
    ] {
        assert_eq!(queue(&cluster, arguments, b"").0, 2, "{arguments:?}");
    }
}

/// Starts a pop, and returns when it waits for all partitions.
fn waiting_pop(cluster: &ServingProgram, partitions: u64) -> RunningProcess {
    let mut pop =
        zerohop(&["queue", "pop", "jobs", "--wait", "1h", "--json", "--endpoint", cluster.endpoint()]);
    pop.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let waiting = RunningProcess::start(&mut pop);
    wait_for("the pop waits", || metric(cluster.endpoint(), "waits"), |waits| *waits >= partitions);
    waiting
}

#[test]
fn pop_that_waits_is_woken_by_a_push_into_any_partition() {
    let cluster = ServingProgram::in_memory();
    done(&cluster, &["create", "jobs", "--partitions", "3"]);
    // The groups are in all partitions.
    for number in 0..6 {
        let waiting = waiting_pop(&cluster, 3);
        let value = format!("message {number}");
        done(&cluster, &["push", "jobs", &value, "--group", &format!("group {number}")]);
        let ended = waiting.output();
        assert_eq!(text(&lines(&stdout(&ended))[0], "value"), value);
    }
}

#[test]
fn pop_that_waits_for_a_dropped_queue_says_that_it_is_gone() {
    let cluster = ServingProgram::in_memory();
    done(&cluster, &["create", "jobs", "--partitions", "2"]);
    let waiting = waiting_pop(&cluster, 2);
    done(&cluster, &["drop", "jobs", "--yes"]);
    let ended = waiting.output();
    let answer =
        json!({"queue": "jobs", "done": false, "reason": "no_queue", "error": "the queue does not exist"});
    assert_eq!((code(&ended), lines(&stdout(&ended))), (1, vec![answer]), "{ended:?}");
}

#[test]
fn interrupted_pop_that_waits_has_changed_nothing() {
    let cluster = ServingProgram::in_memory();
    done(&cluster, &["create", "jobs", "--partitions", "2"]);
    let waiting = waiting_pop(&cluster, 2);
    // A background job ignores SIGINT.
    kill_process(waiting.pid(), Signal::TERM).unwrap();
    let ended = waiting.output();
    assert_eq!(
        (code(&ended), stderr(&ended).as_str()),
        (130, "zerohop: interrupted; nothing was changed\n"),
        "{ended:?}"
    );
}

/// The node is stopped in the middle, so that it answers nothing.
#[test]
fn push_without_an_answer_says_so_in_one_sentence() {
    let cluster = ServingProgram::in_memory();
    done(&cluster, &["create", "jobs"]);
    let mut push =
        zerohop(&["queue", "push", "jobs", "--timeout", "1s", "--json", "--endpoint", cluster.endpoint()]);
    push.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut pushing = RunningProcess::start(&mut push);
    let input = pushing.stdin.as_mut().unwrap();
    input.write_all(b"first\n").unwrap();
    let depth = || json(&cluster, &["stats", "jobs"])[0]["depth"].clone();
    wait_for("the first message is pushed", depth, |depth| *depth == 1);
    pause(cluster.node_pid());
    input.write_all(b"second\n").unwrap();
    let ended = pushing.output();
    kill_process(cluster.node_pid(), Signal::CONT).unwrap();
    let error = stderr(&ended);
    assert_eq!(code(&ended), 4, "{ended:?}");
    assert!(error.contains("so it may be done or not: look before you repeat it"), "{error}");
    for wrong in ["nothing was changed", "key", "\\u", "\\0"] {
        assert!(!error.contains(wrong), "{error}");
    }
}
