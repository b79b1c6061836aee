//! Writes of blobs that depend on earlier reads by other processes.

use serde_json::json;

use crate::support::serving::{ServingProgram, code, stderr, stdout};

#[test]
fn conditional_write_of_later_command_is_refused_after_a_change() {
    let cluster = ServingProgram::in_memory();
    let folder = crate::support::folder();
    let versions = folder.path().join("versions");
    let versions = versions.to_str().unwrap();
    let read = |at: &str, length: &str| {
        let output =
            cluster.run(&["blob", "read", "b", "--at", at, "--length", length, "--versions-to", versions]);
        assert_eq!((code(&output), stderr(&output).as_str()), (0, ""), "{output:?}");
        output.stdout
    };
    let write_if = |value: &str, at: &str| {
        cluster.run(&["blob", "write", "b", value, "--at", at, "--if-versions", versions])
    };
    let refused = |value: &str, at: &str| {
        let output = write_if(value, at);
        assert_eq!((code(&output), stdout(&output).as_str()), (1, ""), "{output:?}");
        assert!(
            stderr(&output).contains("blob \"b\": the part that was read has changed since"),
            "{output:?}"
        );
    };
    assert_eq!(code(&cluster.run_with(&["blob", "put", "b", "--chunk", "4K"], &[7; 10_000])), 0);

    // A read over two chunks; a write to a third chunk is no conflict.
    assert_eq!(read("4000", "200"), [7; 200]);
    cluster.ok(&["blob", "write", "b", "elsewhere", "--at", "9000"]);
    assert_eq!(code(&write_if("first", "4000")), 0);
    refused("second", "4000");
    let ended =
        cluster.run(&["blob", "write", "b", "x", "--at", "4000", "--if-versions", versions, "--json"]);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&stdout(&ended)).unwrap(),
        json!({
            "name": "b", "done": false, "reason": "changed"
        })
    );
    assert_eq!(read("4000", "5"), b"first");

    // A read to the end also depends on the end.
    read("9990", "100");
    cluster.ok(&["blob", "extend", "b", "more"]);
    refused("late", "9990");
    // A read within the blob: an extension is no conflict, but a truncation is.
    read("0", "10");
    cluster.ok(&["blob", "extend", "b", "more"]);
    assert_eq!(code(&write_if("still", "0")), 0);
    read("0", "10");
    cluster.ok(&["blob", "truncate", "b", "9000"]);
    refused("late", "0");
    // The blob is removed, and another of the name is created.
    read("0", "10");
    cluster.ok(&["blob", "rm", "b"]);
    assert_eq!(code(&write_if("late", "0")), 1);
    assert_eq!(code(&cluster.run_with(&["blob", "put", "b", "--chunk", "4K"], &[7; 10_000])), 0);
    refused("late", "0");
    assert_eq!(cluster.ok(&["blob", "get", "b"]).into_bytes(), [7; 10_000]);
    // An empty write changes nothing, and does not grow the blob.
    read("20000", "10");
    assert_eq!(code(&write_if("", "50000")), 0);
    assert_eq!(cluster.json(&["blob", "stat", "b"])["size"], 10_000);
}

#[test]
fn invalid_read_version_file_is_refused_before_sending() {
    let cluster = ServingProgram::in_memory();
    let folder = crate::support::folder();
    let file = folder.path().join("other");
    cluster.ok(&["blob", "put", "b", "/dev/null"]);
    for text in [&b""[..], b"zerohop-seen 1\n", b"zerohop-seen 1\nx y z\n", b"\xFF\xFE", &[b'9'; 5_000_000]] {
        std::fs::write(&file, text).unwrap();
        let output =
            cluster.run(&["blob", "write", "b", "x", "--at", "0", "--if-versions", file.to_str().unwrap()]);
        assert_eq!(code(&output), 2, "{output:?}");
        assert!(stderr(&output).contains("is not what `blob read --versions-to` writes"), "{output:?}");
    }
    let both = cluster.run(&["blob", "write", "b", "x", "--at", "0", "--pieces", "--if-versions", "f"]);
    assert_eq!(code(&both), 2, "{both:?}");
    cluster.ok(&["blob", "truncate", "b", "100000000"]);
    let long = cluster.run(&["blob", "read", "b", "--versions-to", file.to_str().unwrap()]);
    assert_eq!((code(&long), stdout(&long).as_str()), (3, ""), "{long:?}");
    assert!(stderr(&long).contains("give a --length"), "{long:?}");
}
