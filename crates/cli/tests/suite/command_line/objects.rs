//! `zerohop object`: buckets and objects without a gateway, and the same ones through a gateway.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::s3::signing::SignedRequest;
use super::s3::{gateway, ok, send};
use crate::support::folder;
use crate::support::serving::{ServingProgram, code, output, stderr, stdout, zerohop};

/// Runs a command that is about objects; returns its exit code and both outputs.
fn object(cluster: &ServingProgram, arguments: &[&str], input: &[u8]) -> (i32, String, String) {
    let all = [&["object"], arguments, &["--endpoint", cluster.endpoint()]].concat();
    let ended = output(zerohop(&all), input);
    (code(&ended), stdout(&ended), stderr(&ended))
}

fn done(cluster: &ServingProgram, arguments: &[&str], input: &[u8]) -> String {
    let (code, out, error) = object(cluster, arguments, input);
    assert_eq!(code, 0, "{arguments:?}: {error}");
    out
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn start(folder: &std::path::Path) -> ServingProgram {
    ServingProgram::up(&["--instances", "2", "--data", folder.join("data").to_str().unwrap()])
}

#[test]
fn objects_are_put_listed_copied_and_removed() {
    let folder = folder();
    let cluster = start(folder.path());
    done(&cluster, &["mb", "papers"], b"");
    done(
        &cluster,
        &["put", "papers/2026/short", "--metadata", "run=7", "--content-type", "text/plain"],
        b"hello",
    );
    let long = "0123456789".repeat(300_000);
    let file = folder.path().join("long");
    fs::write(&file, &long).unwrap();
    let stored = done(&cluster, &["put", "s3://papers/2026/long", file.to_str().unwrap(), "--json"], b"");
    let stored = &json_lines(&stored)[0];
    assert_eq!((&stored["size"], &stored["done"]), (&json!(3_000_000), &json!(true)));
    done(&cluster, &["put", "papers/empty"], b"");

    assert_eq!(done(&cluster, &["get", "papers/2026/short"], b""), "hello");
    assert_eq!(done(&cluster, &["get", "papers/empty"], b""), "");
    let copy = folder.path().join("copy");
    done(&cluster, &["cp", "papers/2026/long", "papers/copy"], b"");
    done(&cluster, &["get", "papers/copy", copy.to_str().unwrap()], b"");
    assert!(fs::read_to_string(&copy).unwrap() == long);
    let stat = &json_lines(&done(&cluster, &["stat", "papers/2026/short", "--json"], b""))[0];
    assert_eq!(stat["attributes"], json!({"content-type": "text/plain", "x-amz-meta-run": "7"}));
    assert_eq!(stat["etag"], "5d41402abc4b2a76b9719d911017c592", "the MD5 of the bytes");

    let names = |arguments: &[&str]| -> Vec<String> {
        let lines = done(&cluster, &[&["ls", "--json"], arguments].concat(), b"");
        let name = |line: Value| line["name"].as_str().or(line["prefix"].as_str()).unwrap().to_owned();
        json_lines(&lines).into_iter().map(name).collect()
    };
    assert_eq!(names(&["papers"]), ["2026/", "copy", "empty"]);
    assert_eq!(names(&["papers/2026/"]), ["2026/long", "2026/short"]);
    assert_eq!(names(&["papers", "--recursive"]), ["2026/long", "2026/short", "copy", "empty"]);
    assert_eq!(names(&["papers", "--recursive", "--limit", "1"]), ["2026/long"]);
    assert_eq!(json_lines(&done(&cluster, &["ls", "--json"], b""))[0]["bucket"], "papers");

    let report = &json_lines(&done(&cluster, &["check", "--json"], b""))[0];
    assert_eq!(
        (&report["objects"], &report["bodies"], &report["intact"]),
        (&json!(4), &json!(2), &json!(true))
    );
    done(&cluster, &["rm", "papers/copy"], b"");
    assert_eq!(done(&cluster, &["rm", "papers/", "--recursive"], b""), "3 objects removed\n");
    let report = &json_lines(&done(&cluster, &["check", "--json"], b""))[0];
    assert_eq!((&report["objects"], &report["unused_bodies"]), (&json!(0), &json!(2)));
    assert_eq!(report["intact"], json!(true));
    done(&cluster, &["rb", "papers"], b"");
    assert_eq!(done(&cluster, &["ls"], b""), "");
    assert_eq!(cluster.end_with(Signal::TERM), Some(0));
}

#[test]
fn negative_answers_have_exit_code_one_and_a_reason() {
    let folder = folder();
    let cluster = start(folder.path());
    let (code, _, error) = object(&cluster, &["ls"], b"");
    // A keyspace that a user creates by hand does not fit, so the advice is another command.
    assert!(
        code == 3 && error.contains("no objects yet") && error.contains("`zerohop object mb BUCKET`"),
        "{error}"
    );
    done(&cluster, &["mb", "papers"], b"");
    done(&cluster, &["put", "papers/a"], b"first");
    let reason = |arguments: &[&str]| {
        let (code, out, _) = object(&cluster, &[arguments, &["--json"]].concat(), b"second");
        let answer = json_lines(&out).pop().unwrap();
        assert_eq!((code, &answer["done"]), (1, &json!(false)), "{arguments:?}: {answer}");
        answer["reason"].as_str().unwrap().to_owned()
    };
    assert_eq!(reason(&["mb", "papers"]), "exists");
    assert_eq!(reason(&["rb", "papers"]), "not_empty");
    assert_eq!(reason(&["rb", "plans"]), "no_bucket");
    assert_eq!(reason(&["put", "plans/a"]), "no_bucket");
    assert_eq!(reason(&["put", "papers/a", "--if-absent"]), "exists");
    assert_eq!(reason(&["cp", "papers/b", "papers/c"]), "not_found");
    assert_eq!(reason(&["cp", "papers/a", "papers/a", "--if-absent"]), "exists");
    assert_eq!(reason(&["rm", "papers/b"]), "not_found");
    assert_eq!(reason(&["stat", "papers/b"]), "not_found");
    assert_eq!(done(&cluster, &["get", "papers/a"], b""), "first");
    for (arguments, words) in [
        (&["mb", "Papers"][..], "lower-case"),
        (&["put", "papers"], "BUCKET/NAME"),
        (&["rm", "papers"], "--recursive"),
        (&["put", "papers/a", "--metadata", "größe=1"], "NAME=VALUE"),
        (&["get", "papers/a", "--json"], "needs a FILE"),
    ] {
        let (code, _, error) = object(&cluster, arguments, b"");
        assert!(code == 2 && error.contains(words), "{arguments:?}: {error}");
    }
    assert_eq!(cluster.end_with(Signal::TERM), Some(0));
}

#[test]
fn gateway_and_command_have_the_same_objects() {
    let folder = folder();
    let cluster = start(folder.path());
    done(&cluster, &["mb", "shared"], b"");
    done(&cluster, &["put", "shared/of the command", "--metadata", "run=7"], b"one");
    let gateway = gateway(cluster.endpoint());
    let address = gateway.ready["listen"].as_str().unwrap().to_owned();
    let read = ok(&address, SignedRequest::new("GET", "/shared/of%20the%20command"), b"");
    assert_eq!(read.body, "one");
    assert!(read.head.contains("x-amz-meta-run: 7"), "{}", read.head);
    ok(&address, SignedRequest::new("PUT", "/shared/of-the-gateway"), b"two");
    assert_eq!(done(&cluster, &["get", "shared/of-the-gateway"], b""), "two");
    done(&cluster, &["rm", "shared/of-the-gateway"], b"");
    assert_eq!(send(&address, SignedRequest::new("GET", "/shared/of-the-gateway"), b"").status, 404);

    // A body that nothing names, and an object without its body.
    let intact = |cluster: &ServingProgram| object(cluster, &["check"], b"");
    assert_eq!(intact(&cluster).0, 0);
    let stray = format!("{}-{:016x}", "ab".repeat(16), 1);
    let blob = |arguments: &[&str]| cluster.ok(&[&["blob"], arguments, &["-k", "objects-bodies"]].concat());
    let file = folder.path().join("stray");
    fs::write(&file, "bytes").unwrap();
    blob(&["put", &stray, file.to_str().unwrap()]);
    let (code, out, _) = intact(&cluster);
    assert!(code == 1 && out.contains("no record names the body") && out.ends_with("\n1 fault\n"), "{out}");
    blob(&["rm", &stray]);
    for name in blob(&["ls"]).lines() {
        blob(&["rm", name]);
    }
    let (code, out, _) = intact(&cluster);
    assert!(code == 1 && out.contains("of an object is missing"), "{out}");
    assert_eq!(gateway.end_with(Signal::TERM), Some(0));
    assert_eq!(cluster.end_with(Signal::TERM), Some(0));
}
