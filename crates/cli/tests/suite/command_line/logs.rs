//! `zerohop log`: logs through the program, also while it and the cluster are killed.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use zerohop_client::Client;
use zerohop_layer_log::{
    Batch, BatchLimits, CommitOffsets, GroupOwner, JoinGroup, LogError, LogRecord, ProducerId, ProducerStamp,
};
use zerohop_log_client::{LogClient, LogProducer, OpenError};

use crate::support::folder;
use crate::support::serving::{ServingProgram, code, output, stderr, stdout, wait_until_exited, zerohop};

/// Runs a command that is about logs; returns its exit code and both outputs.
fn log(cluster: &ServingProgram, arguments: &[&str], input: &[u8]) -> (i32, String, String) {
    let all = [&["log"], arguments, &["--endpoint", cluster.endpoint()]].concat();
    let ended = output(zerohop(&all), input);
    (code(&ended), stdout(&ended), stderr(&ended))
}

fn done(cluster: &ServingProgram, arguments: &[&str], input: &[u8]) -> String {
    let (code, out, error) = log(cluster, arguments, input);
    assert_eq!(code, 0, "{arguments:?}: {error}");
    out
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn values(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["value"].as_str().unwrap()).collect()
}

fn start(folder: &Path) -> ServingProgram {
    ServingProgram::up(&["--no-restart", "--instances", "2", "--data", folder.join("data").to_str().unwrap()])
}

#[test]
fn records_are_appended_read_searched_and_trimmed() {
    let folder = folder();
    let cluster = start(folder.path());
    let created =
        done(&cluster, &["create", "events", "--partitions", "2", "--retention", "7d", "--json"], b"");
    let created = &json_lines(&created)[0];
    assert_eq!((&created["log"], &created["retention_ms"]), (&json!("events"), &json!(604_800_000)));
    assert_eq!(created["partitions"].as_array().unwrap().len(), 2);

    let appended = done(
        &cluster,
        &["append", "events", "one", "two", "--partition", "1", "--header", "run=7", "--json"],
        b"",
    );
    let appended = &json_lines(&appended)[0];
    assert_eq!(*appended, json!({"partition": 1, "offset": 0, "records": 2, "done": true}));
    let out = done(&cluster, &["append", "events", "--partition", "1", "--key", "k"], b"three\n\nfive");
    assert_eq!(out, "3 records appended, the first one at offset 2 of partition 1\n");
    assert_eq!(done(&cluster, &["append", "events"], b""), "0 records appended\n");
    let empty = json_lines(&done(&cluster, &["append", "events", "--json"], b""));
    assert_eq!(empty, [json!({"partition": null, "offset": null, "records": 0, "done": true})]);

    assert_eq!(done(&cluster, &["read", "events"], b""), "one\ntwo\nthree\n\nfive\n");
    let read = json_lines(&done(
        &cluster,
        &["read", "events", "--partition", "1", "--from", "1", "--limit", "2", "--json"],
        b"",
    ));
    assert_eq!(values(&read), ["two", "three"]);
    assert_eq!((&read[0]["partition"], &read[0]["offset"]), (&json!(1), &json!(1)));
    assert_eq!((&read[0]["headers"], read[0].get("key")), (&json!({"run": {"value": "7"}}), None));
    assert_eq!((&read[1]["key"], &read[1]["headers"]), (&json!("k"), &json!({})));
    let time = read[1]["time_ms"].as_u64().unwrap();
    let from_time = |time: &str| done(&cluster, &["read", "events", "--time", time], b"");
    assert_eq!(from_time(&format!("{time}ms")), "three\n\nfive\n");
    assert_eq!(from_time(&format!("{}ms", time + 3_600_000)), "");
    assert_eq!(from_time("1h"), "one\ntwo\nthree\n\nfive\n");
    // A page of a byte has one batch.
    assert_eq!(done(&cluster, &["read", "events", "--bytes", "1"], b""), "one\ntwo\n");

    // Records of one key are in one partition, and batches without a key go around.
    for word in ["a", "b", "c", "d"] {
        done(&cluster, &["append", "events", word, "--key", "same"], b"");
    }
    let all = json_lines(&done(&cluster, &["read", "events", "--json"], b""));
    let partitions: BTreeSet<u64> = all
        .iter()
        .filter(|record| record["key"] == "same")
        .map(|record| record["partition"].as_u64().unwrap())
        .collect();
    assert_eq!(partitions.len(), 1);

    assert_eq!(
        done(&cluster, &["trim", "events", "--partition", "1", "--below", "3"], b""),
        "1 batch removed\n"
    );
    assert_eq!(
        values(&json_lines(&done(
            &cluster,
            &["read", "events", "--partition", "1", "--limit", "2", "--json"],
            b""
        ))),
        ["", "five"]
    );
    assert_eq!(done(&cluster, &["trim", "events"], b""), "0 batches removed\n", "nothing is 7 days old");
    assert_eq!(done(&cluster, &["list"], b"").lines().count(), 1);
    let info = &json_lines(&done(&cluster, &["info", "events", "--json"], b""))[0];
    assert_eq!((&info["partitions"][1]["first"], &info["records"]), (&json!(3), &json!(6)));
    done(&cluster, &["trim", "events", "--keep-bytes", "0"], b"");
    assert_eq!(done(&cluster, &["read", "events"], b""), "");
    done(&cluster, &["drop", "events", "--yes"], b"");
    assert_eq!(done(&cluster, &["list"], b""), "");
    assert_eq!(cluster.end_with(Signal::TERM), Some(0));
}

#[test]
fn negative_answers_and_bad_input_have_reasons() {
    let cluster = ServingProgram::in_memory();
    done(&cluster, &["create", "events"], b"");
    done(&cluster, &["append", "events", "a", "b", "c"], b"");
    done(&cluster, &["trim", "events", "--below", "1"], b"");
    cluster.ok(&["keyspace", "create", "ordered", "--ordered"]);
    cluster.ok(&["kv", "insert", "k", "v", "-k", "ordered"]);
    let reason = |arguments: &[&str]| {
        let (code, out, error) = log(&cluster, &[arguments, &["--json"]].concat(), b"");
        let answer = json_lines(&out).pop().unwrap_or_else(|| panic!("{arguments:?}: {error}"));
        assert_eq!((code, &answer["done"]), (1, &json!(false)), "{arguments:?}: {answer}");
        answer["reason"].as_str().unwrap().to_owned()
    };
    for (arguments, expected) in [
        (&["read", "none"][..], "no_log"),
        (&["append", "none", "a"], "no_log"),
        (&["drop", "none", "--yes"], "no_log"),
        (&["info", "ordered"], "no_log"),
        (&["info", "default"], "no_log"),
        (&["create", "events"], "exists"),
        (&["create", "ordered"], "exists"),
        (&["create", "default"], "exists"),
        (&["read", "events", "--from", "0"], "out_of_range"),
        (&["read", "events", "--from", "4"], "out_of_range"),
        (&["tail", "events", "--from", "4"], "out_of_range"),
        (&["read", "events", "--partition", "1"], "no_partition"),
        (&["append", "events", "a", "--partition", "1"], "no_partition"),
        (&["pop", "events", "--partition", "1"], "no_partition"),
        (&["trim", "events"], "no_retention"),
    ] {
        assert_eq!(reason(arguments), expected, "{arguments:?}");
    }
    let (code, _, error) = log(&cluster, &["read", "events", "--from", "9"], b"");
    assert!(code == 1 && error.contains("offsets from 1 on") && error.contains("offset 3"), "{error}");
    // A record that no batch can have, behind one that is appended.
    let long = [&b"d\n"[..], &vec![b'x'; (1 << 20) + 1]].concat();
    let (code, out, error) = log(&cluster, &["append", "events"], &long);
    assert!(code == 3 && error.contains("more than 1048576 bytes"), "{code} {out} {error}");
    assert_eq!(done(&cluster, &["read", "events"], b""), "b\nc\nd\n");
    // Many records are as many batches as they need.
    let many = "0123456789\n".repeat(200_000);
    let out = done(&cluster, &["append", "events"], many.as_bytes());
    assert!(out.starts_with("200000 records appended"), "{out}");
    assert_eq!(done(&cluster, &["read", "events", "--from", "4"], b""), many);
    for arguments in [
        &["create", "x", "--partitions", "0"][..],
        &["append", "events", "a", "--header", "nothing"],
        &["pop", "events", "--limit", "0"],
        &["read", "events", "--from", "1", "--time", "1h"],
    ] {
        assert_eq!(log(&cluster, arguments, b"").0, 2, "{arguments:?}");
    }
}

#[test]
fn append_of_lines_to_several_partitions_names_them() {
    let cluster = ServingProgram::in_memory();
    done(&cluster, &["create", "events", "--partitions", "2"], b"");
    // The line without an end comes in a batch of its own, which goes to the next partition.
    let printed = done(&cluster, &["append", "events"], b"one\ntwo\nthree");
    let (first, other) = match printed.contains("2 from offset 0 of partition 0 on") {
        true => (0, 1),
        false => (1, 0),
    };
    let count = |partition: u32| match partition == first {
        true => 2,
        false => 1,
    };
    let expected = [0, 1].map(|one| format!("{} from offset 0 of partition {one} on", count(one))).join(", ");
    assert_eq!(printed, format!("3 records appended: {expected}\n"));
    let of = |one: u32| done(&cluster, &["read", "events", "--partition", &one.to_string()], b"");
    assert_eq!((of(first).as_str(), of(other).as_str()), ("one\ntwo\n", "three\n"));
}

#[test]
fn tail_prints_records_as_they_are_appended() {
    let cluster = ServingProgram::in_memory();
    done(&cluster, &["create", "events", "--partitions", "3"], b"");
    done(&cluster, &["append", "events", "before"], b"");
    let mut command = zerohop(&["log", "tail", "events", "--json", "--endpoint", cluster.endpoint()]);
    let mut tail = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    // It begins at the end, at some time from now on: records are appended until one is seen.
    let appender = std::thread::spawn({
        let endpoint = cluster.endpoint().to_owned();
        move || {
            let command = zerohop(&["log", "append", "events", "--endpoint", &endpoint]);
            let mut command = command;
            let mut append = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
            let mut input = append.stdin.take().unwrap();
            for number in 0..60 {
                writeln!(input, "{number}").unwrap();
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            drop(input);
            assert!(append.wait().unwrap().success());
        }
    });
    let mut seen: Vec<u64> = Vec::new();
    while seen.last() != Some(&59) {
        let record: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        seen.push(record["value"].as_str().unwrap().parse().unwrap());
    }
    appender.join().unwrap();
    seen.sort_unstable();
    let first = seen[0];
    assert_eq!(seen, (first..60).collect::<Vec<u64>>(), "without a gap, and none twice");
    kill_process(rustix::process::Pid::from_child(&tail), Signal::INT).unwrap();
    assert_eq!(tail.wait().unwrap().code(), Some(0));
    assert_eq!(done(&cluster, &["tail", "events", "--time", "1h", "--limit", "61"], b"").lines().count(), 61);
}

#[test]
fn two_readers_of_a_cursor_get_each_record_once() {
    let cluster = ServingProgram::in_memory();
    done(&cluster, &["create", "events", "--partitions", "2"], b"");
    let (code, _, error) = log(&cluster, &["pop", "events"], b"");
    assert!(code == 1 && error.contains("no record"), "{error}");
    let text: String = (0..40).map(|number| format!("{number}\n")).collect();
    done(&cluster, &["append", "events", "--partition", "0"], text.as_bytes());
    done(&cluster, &["append", "events", "--partition", "1", "40", "41"], b"");
    let popped: Vec<u64> = std::thread::scope(|scope| {
        let pops = [(); 2].map(|()| {
            scope.spawn(|| {
                let mut all = Vec::new();
                loop {
                    let (code, out, _) = log(&cluster, &["pop", "events", "--limit", "3"], b"");
                    if code == 1 {
                        return all;
                    }
                    all.extend(out.lines().map(|line| line.parse::<u64>().unwrap()));
                }
            })
        });
        let mut all: Vec<u64> = pops.into_iter().flat_map(|pops| pops.join().unwrap()).collect();
        all.sort_unstable();
        all
    });
    assert_eq!(popped, (0..42).collect::<Vec<u64>>());
    // Another cursor begins at the first record, and a pop waits.
    assert_eq!(done(&cluster, &["pop", "events", "--cursor", "other", "--partition", "0"], b""), "0\n");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| done(&cluster, &["pop", "events", "--wait", "1m"], b""));
        done(&cluster, &["append", "events", "last", "--partition", "1"], b"");
        assert_eq!(waiting.join().unwrap(), "last\n");
    });
    assert_eq!(done(&cluster, &["groups", "events"], b""), "");
}

#[test]
fn acknowledged_records_are_there_once_after_the_node_is_killed() {
    let folder = folder();
    let mut cluster = start(folder.path());
    done(&cluster, &["create", "events", "--durability", "sync"], b"");
    let mut acknowledged = 0;
    for round in 0..3_u64 {
        let mut command = zerohop(&[
            "log",
            "append",
            "events",
            "--json",
            "--timeout",
            "10s",
            "--endpoint",
            cluster.endpoint(),
        ]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut append = command.spawn().unwrap();
        let mut input = append.stdin.take().unwrap();
        let writer = std::thread::spawn(move || {
            for number in 0.. {
                // The program has ended.
                if writeln!(input, "{round} {number}").is_err() {
                    return;
                }
            }
        });
        let mut lines = BufReader::new(append.stdout.take().unwrap()).lines();
        let mut batches = 0;
        while let Some(Ok(line)) = lines.next() {
            let batch: Value = serde_json::from_str(&line).unwrap();
            if batch["done"] != true {
                continue;
            }
            acknowledged = batch["offset"].as_u64().unwrap() + batch["records"].as_u64().unwrap();
            batches += 1;
            if batches == 3 {
                kill_process(cluster.node_pid(), Signal::KILL).unwrap();
            }
        }
        assert!(batches >= 3);
        append.wait().unwrap();
        writer.join().unwrap();
        let node = cluster.node_pid();
        let _ = kill_process(cluster.pid(), Signal::TERM);
        cluster.wait();
        wait_until_exited(node);
        cluster = start(folder.path());
        let read = json_lines(&done(&cluster, &["read", "events", "--json"], b""));
        assert!(read.len() as u64 >= acknowledged, "{} of {acknowledged}", read.len());
        let offsets = read.iter().map(|record| record["offset"].as_u64().unwrap());
        assert!(offsets.eq(0..read.len() as u64), "offsets have no holes");
        let all = values(&read);
        for other in 0..=round {
            let prefix = format!("{other} ");
            let numbers = all.iter().filter_map(|value| value.strip_prefix(&prefix)?.parse::<u64>().ok());
            let numbers: Vec<u64> = numbers.collect();
            assert!(
                numbers.iter().copied().eq(0..numbers.len() as u64),
                "no number is missing or there twice"
            );
        }
    }
    // A pop goes on behind the restart.
    assert_eq!(done(&cluster, &["pop", "events"], b""), "0 0\n");
    kill_process(cluster.node_pid(), Signal::KILL).unwrap();
    cluster.wait();
    let cluster = start(folder.path());
    assert_eq!(done(&cluster, &["pop", "events"], b""), "0 1\n");
}

#[tokio::test]
async fn members_of_a_group_share_partitions_and_older_generations_commit_nothing() {
    let cluster = ServingProgram::in_memory();
    done(&cluster, &["create", "events", "--partitions", "3"], b"");
    done(&cluster, &["append", "events", "a", "b", "c", "--partition", "2"], b"");
    let client = Client::connect(cluster.endpoint()).await.unwrap();
    let log_of = async |name| LogClient::open(&client, name).await;
    let absent = log_of("default").await;
    assert!(matches!(absent, Err(OpenError::Log(LogError::NoSuchLog))), "{absent:?}");
    let events = log_of("events").await.unwrap();
    let members = [events.new_member(), events.new_member()];
    let join = |member| JoinGroup { group: "g".to_owned(), member, session: 60_000 };
    let alone = events.join(join(members[0])).await.unwrap();
    assert_eq!(alone.partitions, 0..3);
    let second = events.join(join(members[1])).await.unwrap();
    let first = events.join(join(members[0])).await.unwrap();
    assert_eq!((first.generation, second.generation), (2, 2));
    let mut both: Vec<u32> = first.partitions.clone().chain(second.partitions.clone()).collect();
    both.sort_unstable();
    assert_eq!(both, [0, 1, 2]);

    let commit = |member, generation, partition| CommitOffsets {
        group: "g".to_owned(),
        owner: Some(GroupOwner { member, generation }),
        offsets: vec![(partition, 1)],
    };
    let (owner, other) = match first.partitions.contains(&2) {
        true => (members[0], members[1]),
        false => (members[1], members[0]),
    };
    let old = events.commit(commit(members[0], alone.generation, 2)).await;
    assert_eq!(old, Err(LogError::OldGeneration { generation: 2 }));
    assert_eq!(events.commit(commit(other, 2, 2)).await, Err(LogError::NotAssigned { partition: 2 }));
    events.commit(commit(owner, 2, 2)).await.unwrap();
    let refused = log(&cluster, &["commit", "events", "g", "--to", "first"], b"");
    assert_eq!((refused.0, refused.2.contains("the group has members")), (1, true), "{refused:?}");
    let kept = events.heartbeat("g".to_owned(), GroupOwner { member: owner, generation: 2 }, 60_000).await;
    assert_eq!(kept.unwrap().generation, 2);
    let shown = &json_lines(&done(&cluster, &["groups", "events", "--json"], b""))[0];
    assert_eq!((&shown["group"], &shown["generation"], &shown["lag"]), (&json!("g"), &json!(2), &json!(2)));
    assert_eq!(shown["offsets"], json!([{"partition": 2, "offset": 1, "lag": 2}]));
    assert_eq!(shown["members"].as_array().unwrap().len(), 2);

    events.leave("g".to_owned(), other).await.unwrap();
    assert_eq!(events.delete_group("g".to_owned()).await, Err(LogError::GroupHasMembers));
    events.leave("g".to_owned(), owner).await.unwrap();
    let fetched = events.fetch("g".to_owned(), None, vec![1, 2]).await.unwrap();
    assert_eq!(fetched.iter().map(|one| one.map(|one| one.offset)).collect::<Vec<_>>(), [None, Some(1)]);
    for (to, offset) in [("first", 0), ("3", 3), ("next", 3), ("1", 1)] {
        done(&cluster, &["commit", "events", "g", "--partition", "2", "--to", to], b"");
        let fetched = events.fetch("g".to_owned(), None, vec![2]).await.unwrap();
        assert_eq!(fetched[0].unwrap().offset, offset);
    }
    let refused = log(&cluster, &["commit", "events", "g", "--partition", "2", "--to", "4"], b"");
    assert_eq!((refused.0, refused.2.contains("from 0 on")), (1, true), "{refused:?}");
    assert_eq!(log(&cluster, &["commit", "events", "g", "--to", "1"], b"").0, 2);
    let shown = done(&cluster, &["groups", "events"], b"");
    assert_eq!(shown, "g: 0 members, 2 records not read\n  partition 2: offset 1, 2 records not read\n");
    events.delete_group("g".to_owned()).await.unwrap();
    assert_eq!(done(&cluster, &["groups", "events"], b""), "");
}

#[tokio::test]
async fn producer_of_a_lower_epoch_is_fenced_and_a_repeated_batch_is_there_once() {
    let cluster = ServingProgram::in_memory();
    done(&cluster, &["create", "events"], b"");
    let client = Client::connect(cluster.endpoint()).await.unwrap();
    let events = LogClient::open(&client, "events").await.unwrap();
    let id = ProducerId([7; 16]);
    let record = |value: &str| [LogRecord { value: Some(value.into()), ..LogRecord::default() }];
    let mut first = LogProducer::with_id(events.clone(), id, 0);
    assert_eq!(first.append(0, &record("a"), 0).await.unwrap().base, 0);
    let stamp = ProducerStamp { id, epoch: 0, sequence: 0 };
    let again = Batch::new(&record("a"), Some(stamp), &BatchLimits::default()).unwrap();
    let repeated = events.append(0, again).await.unwrap();
    assert!(repeated.is_duplicate && repeated.base == 0, "{repeated:?}");
    let mut second = LogProducer::with_id(events, id, 1);
    assert_eq!(second.append(0, &record("b"), 0).await.unwrap().base, 1);
    assert_eq!(first.append(0, &record("c"), 0).await, Err(LogError::ProducerFenced { epoch: 1 }));
    assert_eq!(first.append(1, &record("c"), 0).await, Err(LogError::NoSuchPartition));
    assert_eq!(second.append(0, &record("d"), 0).await.unwrap().base, 2);
    assert_eq!(done(&cluster, &["read", "events"], b""), "a\nb\nd\n");
}

/// The caller of an append may go before the answer: a time limit, Ctrl-C. The log may have its batch then, and has every later one.
#[tokio::test]
async fn batch_after_an_append_without_its_caller_is_there_once() {
    let cluster = ServingProgram::in_memory();
    done(&cluster, &["create", "events"], b"");
    let client = Client::connect(cluster.endpoint()).await.unwrap();
    let events = LogClient::open(&client, "events").await.unwrap();
    let record = |value: String| [LogRecord { value: Some(value.into()), ..LogRecord::default() }];
    let mut producer = LogProducer::new(events);
    for round in 0..100_u64 {
        let (cut_off, after) = (record(format!("cut-off-{round}")), record(format!("after-{round}")));
        let limit = Duration::from_micros(20 * round);
        // The outcome is not known if the time is over.
        drop(tokio::time::timeout(limit, producer.append(0, &cut_off, 0)).await);
        producer.append(0, &after, u64::MAX).await.unwrap();
    }
    let read = done(&cluster, &["read", "events"], b"");
    let count = |prefix: &str| read.lines().filter(|line| line.starts_with(prefix)).count();
    let all: BTreeSet<&str> = read.lines().collect();
    assert_eq!((count("after-"), all.len()), (100, read.lines().count()), "{read}");
}

#[test]
fn log_gets_more_partitions_and_keeps_its_records() {
    let folder = folder();
    let cluster = start(folder.path());
    done(&cluster, &["create", "events", "--retention", "7d"], b"");
    done(&cluster, &["append", "events", "one", "two"], b"");
    let altered =
        done(&cluster, &["alter", "events", "--partitions", "3", "--retention", "all", "--json"], b"");
    let altered = &json_lines(&altered)[0];
    assert_eq!((&altered["records"], &altered["retention_ms"]), (&json!(2), &json!(null)));
    assert_eq!(altered["partitions"].as_array().unwrap().len(), 3);
    let regions = stdout(&output(
        zerohop(&["region", "list", "events", "--json", "--endpoint", cluster.endpoint()]),
        b"",
    ));
    assert_eq!(regions.lines().count(), 3, "{regions}");
    let appended = done(&cluster, &["append", "events", "three", "--partition", "2"], b"");
    assert_eq!(appended, "1 record appended, the first one at offset 0 of partition 2\n");
    assert_eq!(done(&cluster, &["read", "events"], b""), "one\ntwo\nthree\n");

    // The same again changes nothing, and partitions do not go away.
    done(&cluster, &["alter", "events", "--partitions", "3"], b"");
    let (code, out, _) = log(&cluster, &["alter", "events", "--partitions", "2", "--json"], b"");
    assert_eq!((code, &json_lines(&out)[0]["reason"]), (1, &json!("bad_partitions")));
    assert_eq!(log(&cluster, &["alter", "events"], b"").0, 2);
    assert_eq!(done(&cluster, &["read", "events"], b""), "one\ntwo\nthree\n");
}

#[tokio::test]
async fn transaction_appends_to_two_logs_and_commits_offsets_or_does_nothing() {
    let folder = folder();
    let cluster = start(folder.path());
    for name in ["input", "output"] {
        done(&cluster, &["create", name], b"");
    }
    done(&cluster, &["append", "input", "1", "2"], b"");
    let client = Client::connect(cluster.endpoint()).await.unwrap();
    let input = LogClient::open(&client, "input").await.unwrap();
    let results = LogClient::open(&client, "output").await.unwrap();
    let record = |text: &str| LogRecord {
        time: input.now(),
        key: None,
        value: Some(text.as_bytes().to_vec()),
        headers: Vec::new(),
    };
    let commit = CommitOffsets { group: "sums".to_owned(), owner: None, offsets: vec![(0, 2)] };

    let aborted = client.begin();
    results.append_within(&aborted, 0, &[record("lost")]).await.unwrap();
    input.commit_within(&aborted, commit.clone()).await.unwrap();
    aborted.abort();
    assert_eq!(done(&cluster, &["read", "output"], b""), "");
    assert_eq!(done(&cluster, &["groups", "input"], b""), "");

    let transaction = client.begin();
    assert_eq!(results.append_within(&transaction, 0, &[record("3"), record("x")]).await.unwrap(), 0);
    assert_eq!(results.append_within(&transaction, 0, &[record("y")]).await.unwrap(), 2);
    input.append_within(&transaction, 0, &[record("3")]).await.unwrap();
    input.commit_within(&transaction, commit.clone()).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(done(&cluster, &["read", "output"], b""), "3\nx\ny\n");
    assert_eq!(done(&cluster, &["read", "input"], b""), "1\n2\n3\n");
    let groups = done(&cluster, &["groups", "input"], b"");
    assert!(groups.contains("1 record not read"), "{groups}");

    // Another append comes between: the transaction conflicts, and does nothing.
    let late = client.begin();
    results.append_within(&late, 0, &[record("late")]).await.unwrap();
    done(&cluster, &["append", "output", "first"], b"");
    let error = late.commit().await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert_eq!(done(&cluster, &["read", "output"], b""), "3\nx\ny\nfirst\n");
}

#[tokio::test]
async fn producer_removes_what_the_retention_does_not_keep() {
    let folder = folder();
    let cluster = start(folder.path());
    done(&cluster, &["create", "events", "--retention-bytes", "1"], b"");
    let client = Client::connect(cluster.endpoint()).await.unwrap();
    let events = LogClient::open(&client, "events").await.unwrap();
    let mut producer = LogProducer::new(events.clone());
    // The first trim is at a random moment of half a minute.
    let gives_up = events.now() + 300_000;
    while events.bounds(0).await.unwrap().first == 0 {
        assert!(events.now() < gives_up, "nothing is trimmed: {:?}", events.bounds(0).await);
        let record =
            LogRecord { time: events.now(), key: None, value: Some(vec![1; 100]), headers: Vec::new() };
        producer.append(0, &[record], gives_up).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
