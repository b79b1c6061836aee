//! A limit of file sizes (`ulimit -f`), which batch systems set: what a file cannot hold is refused, and nothing acknowledged is lost.

use std::path::Path;

use rustix::process::Signal;

use crate::support::serving::{ServingProgram, code, stderr, stdout, zerohop};
use crate::support::wait_for;

/// A node of one instance; with a limit in units of 512 or 1024 bytes, depending on the shell.
fn up(folder: &Path, limit: &str) -> ServingProgram {
    let program = zerohop(&["up", "--nodes", "1", "--port", "0", "--json", "--instances", "1"]);
    let mut limited = std::process::Command::new("sh");
    limited
        .args(["-c", &format!("ulimit -f {limit}; exec \"$0\" \"$@\"")])
        .arg(program.get_program())
        .args(program.get_args());
    limited.arg("--data").arg(folder.join("data"));
    limited.env_remove("ZEROHOP_ENDPOINT").env("ZEROHOP_SECRET_FILE", "");
    ServingProgram::start_with_log(limited, &folder.join("log"))
}

#[test]
fn writes_beyond_a_file_size_limit_are_refused_and_none_is_lost() {
    let folder = crate::support::folder();
    let cluster = up(folder.path(), "4096");
    let durabilities = [("lazy", "interval"), ("strict", "sync")];
    for (keyspace, durability) in durabilities {
        cluster.ok(&["keyspace", "create", keyspace, "--partitions", "1", "--durability", durability]);
    }
    let (mut acknowledged, mut refused) = (Vec::new(), 0);
    for number in 0..24 {
        let bytes = [1 << 10, 300 << 10, 1 << 20, (2 << 20) - (8 << 10), 2 << 20, 5 << 20][number % 6];
        for (keyspace, _) in durabilities {
            let key = format!("key-{number}");
            let value = vec![b'a' + number as u8; bytes];
            let insert = cluster.run_with(&["kv", "insert", "-k", keyspace, &key, "-"], &value);
            if code(&insert) == 0 {
                acknowledged.push((keyspace, key, value));
                continue;
            }
            let why = stderr(&insert);
            assert!(code(&insert) == 3 && why.contains("ulimit -f") && !why.contains("disk"), "{insert:?}");
            refused += 1;
        }
    }
    assert!(refused >= 8 && acknowledged.len() >= 32, "{refused} refused");
    let blob = vec![7; 10 << 20];
    let put = cluster.run_with(&["blob", "put", "-k", "lazy", "blob", "--chunk", "64KiB"], &blob);
    assert_eq!(code(&put), 0, "{put:?}");
    let long = cluster.run_with(&["blob", "put", "-k", "lazy", "long", "--chunk", "8MiB"], &blob);
    assert!(code(&long) != 0 && stderr(&long).contains("ulimit -f"), "{long:?}");
    let troubles = || cluster.json(&["status"])["nodes"][0]["troubles"].to_string();
    let trouble = wait_for("the status names the limit", troubles, |trouble| trouble.contains("ulimit -f"));
    assert!(!trouble.contains("full"), "{trouble}");
    let doctor = cluster.run(&["doctor"]);
    assert!(stdout(&doctor).contains("ulimit -f"), "{doctor:?}");
    assert_eq!(cluster.end_with(Signal::TERM), Some(0), "a clean shutdown");
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.contains("ulimit -f"), "{log}");

    for limit in ["unlimited", "4096"] {
        let cluster = up(folder.path(), limit);
        for (keyspace, key, value) in &acknowledged {
            let found = cluster.run(&["kv", "lookup", "-k", keyspace, key]);
            assert!(code(&found) == 0 && found.stdout == *value, "{keyspace}/{key} of {} bytes", value.len());
        }
        let found = cluster.run(&["blob", "get", "-k", "lazy", "blob", "-"]);
        assert!(found.stdout == blob, "{}", stderr(&found));
        assert_eq!(cluster.end_with(Signal::TERM), Some(0));
    }
}

#[test]
fn node_does_not_start_under_a_limit_that_is_too_low_for_its_files() {
    let folder = crate::support::folder();
    let program = zerohop(&["up", "--nodes", "1", "--port", "0", "--instances", "1"]);
    let mut limited = std::process::Command::new("sh");
    limited
        .args(["-c", "ulimit -f 1024; exec \"$0\" \"$@\""])
        .arg(program.get_program())
        .args(program.get_args());
    limited.arg("--data").arg(folder.path().join("data"));
    limited.env_remove("ZEROHOP_ENDPOINT").env("ZEROHOP_SECRET_FILE", "");
    let refusal = limited.output().unwrap();
    assert!(!refusal.status.success() && stderr(&refusal).contains("ulimit -f"), "{refusal:?}");
}
