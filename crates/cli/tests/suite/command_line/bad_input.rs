//! Bad input is refused soon, with a message about the error, and harms nothing.

use crate::support::serving::{ServingProgram, code, output, stderr, stdout, zerohop};

#[test]
fn invalid_records_are_refused_and_cluster_continues_to_serve() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["kv", "insert", "bytes", "text"]);
    cluster.ok(&["kv", "append", "list", "value"]);
    let refused = |arguments: &[&str], words: &[&str]| {
        let output = cluster.run(arguments);
        assert_eq!((code(&output), stdout(&output).as_str()), (3, ""), "{output:?}");
        for word in words {
            assert!(stderr(&output).contains(word), "{word}: {output:?}");
        }
    };
    let long = "k".repeat((64 << 10) + 1);
    for operation in [&["lookup"][..], &["remove"], &["incr"]] {
        refused(&[&["kv"], operation, &[long.as_str()]].concat(), &["65537 bytes", "65536 are allowed"]);
    }
    refused(&["kv", "insert", &long, "v"], &["65537 bytes", "65536 are allowed"]);
    refused(&["kv", "append", "bytes", "v"], &["key \"bytes\"", "the record is bytes", "other type"]);
    refused(&["kv", "extend", "list", "v"], &["key \"list\"", "the record is a list"]);
    refused(&["kv", "incr", "bytes"], &["not a decimal integer"]);
    refused(&["kv", "lookup", "-k", "absent", "k"], &["no keyspace \"absent\"", "keyspace create"]);
    refused(&["kv", "scan", "-k", "absent"], &["no keyspace \"absent\""]);
    cluster.ok(&["kv", "insert", "full", &i64::MAX.to_string()]);
    refused(&["kv", "incr", "full"], &["64 signed bits"]);

    // A value has at most 16 MiB, from every source.
    let mut large = vec![b'v'; 16 << 20];
    assert_eq!(code(&cluster.run_with(&["kv", "insert", "large", "-"], &large)), 0);
    large.push(b'v');
    let too_large = cluster.run_with(&["kv", "insert", "large", "-"], &large);
    assert_eq!(code(&too_large), 3);
    assert!(stderr(&too_large).contains("16777216 bytes"), "{}", stderr(&too_large));
    refused(&["kv", "extend", "large", "v"], &["16777217 bytes", "16777216 are allowed"]);
    refused(&["kv", "insert", "k", "--file", "/dev/zero"], &["/dev/zero", "16777216 bytes"]);
    refused(&["kv", "insert", "k", "--file", "/no such file"], &["/no such file", "No such file"]);
    assert_eq!(cluster.run(&["kv", "lookup", "large"]).stdout.len(), 16 << 20);
    assert_eq!(cluster.ok(&["kv", "lookup", "bytes"]), "text");
}

#[test]
fn a_wrong_command_line_and_a_call_for_help_end_as_documented() {
    for (arguments, expected) in [
        (&["no-such-command"][..], 2),
        (&[], 2),
        (&["demo", "--no-such-thing"], 2),
        (&["kv"], 2),
        (&["kv", "lookup"], 2),
        (&["kv", "insert", "k"], 2),
        (&["kv", "insert", "k", "v", "--file", "f"], 2),
        (&["kv", "insert", "k", "v", "--if-absent", "--if-present"], 2),
        (&["kv", "insert", "k", "v", "--ttl", "soon"], 2),
        (&["kv", "insert", "k", "v", "--if-version", "7"], 2),
        (&["kv", "cas", "k", "new"], 2),
        (&["kv", "cas", "k", "--expect", "-", "-"], 2),
        (&["kv", "lookup", "k", "--range", "5"], 2),
        (&["kv", "lookup", "k", "--endpoint", "nowhere:x"], 2),
        (&["kv", "lookup", "k", "--endpoint", "127.0.0.1:99999"], 2),
        (&["kv", "incr", "k", "much"], 2),
        (&["up", "--nodes", "0"], 2),
        (&["up", "--nodes", "17"], 2),
        (&["up", "--instances", "0"], 2),
        (&["node", "--memory", "--hosts", "a", "--join", "127.0.0.1:7400"], 2),
        (&["node", "--memory", "--capacity", "0"], 2),
        (&["node", "drain"], 2),
        (&["node", "--memory", "--domain", "rack"], 2),
        (&["partition", "move", "default/1"], 2),
        (&["partition", "move", "default", "--to", "1"], 2),
        (&["partition", "move", "default/1", "--to", "x"], 2),
        (&["recover", "default"], 2),
        (&["recover", "--all-lost", "default/1"], 2),
        (&["up", "--memory", "--data", "d"], 2),
        (&["node"], 2),
        (&["node", "--memory", "--listen", "here"], 2),
        (&["bench", "kv", "--clients", "0"], 2),
        (&["bench", "kv", "--key-bytes", "5"], 2),
        (&["--help"], 0),
        (&["kv", "--help"], 0),
        (&["kv", "insert", "--help"], 0),
        (&["demo", "--help"], 0),
        (&["--version"], 0),
        (&["kv", "--version"], 0),
    ] {
        let output = output(zerohop(arguments), b"");
        assert_eq!(code(&output), expected, "{arguments:?}: {output:?}");
        assert_eq!(output.stdout.is_empty(), expected == 2, "{arguments:?}: {output:?}");
        assert_eq!(output.stderr.is_empty(), expected == 0, "{arguments:?}: {output:?}");
    }
    let nodes = output(zerohop(&["up", "--nodes", "17"]), b"");
    assert!(stderr(&nodes).contains("1 to 16 nodes"), "{nodes:?}");
    let help = output(zerohop(&["kv", "insert", "--help"]), b"");
    assert!(stdout(&help).contains("Exit codes:\n  0    done\n"), "{help:?}");
}

#[test]
fn invalid_host_list_is_refused_with_a_remedy() {
    let folder = crate::support::folder();
    let file = folder.path().join("hosts");
    std::fs::write(&file, "127.0.0.1:7400\n127.0.0.1:7400\n").unwrap();
    let file = file.to_str().unwrap();
    let two = "127.0.0.1:7400,127.0.0.1:7410";
    for (arguments, word) in [
        (vec!["--hosts", "203.0.113.1,203.0.113.2"], "names no host that is this machine"),
        (vec!["--hosts", "127.0.0.1:7400,localhost:7400", "--listen", "127.0.0.1:7400"], "one address twice"),
        (vec!["--host-file", file], "names 127.0.0.1:7400 twice"),
        (vec!["--host-file", "/no such file"], "/no such file"),
        (vec!["--hosts", two], "several hosts"),
        (vec!["--hosts", two, "--listen", "127.0.0.1:7420"], "names no host that is this machine"),
        (vec!["--hosts", "node[3-1]"], "ends before it begins"),
        (vec!["--hosts", ""], "the list of hosts is empty"),
        (vec!["--scheduler"], "no batch scheduler"),
    ] {
        let mut command = zerohop(&[&["node", "--memory"][..], &arguments].concat());
        for name in ["SLURM_JOB_NODELIST", "SLURM_NODELIST", "PBS_NODEFILE"] {
            command.env_remove(name);
        }
        let output = output(command, b"");
        assert_eq!(code(&output), 2, "{arguments:?}: {output:?}");
        assert!(stderr(&output).contains(word), "{arguments:?}, {word}: {output:?}");
    }
    let mut slurm = zerohop(&["node", "--memory", "--scheduler"]);
    slurm.env("SLURM_JOB_NODELIST", "node[1-2]").env("SLURMD_NODENAME", "node7");
    let slurm = output(slurm, b"");
    assert!(code(&slurm) == 2 && stderr(&slurm).contains("node7"), "{slurm:?}");
}

#[test]
fn invalid_start_is_refused_with_reason() {
    let folder = crate::support::folder();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let refused = |arguments: &[&str], words: &[&str]| {
        let output = output(zerohop(&[&["node"], arguments].concat()), b"");
        assert_eq!((code(&output), stdout(&output).as_str()), (3, ""), "{output:?}");
        for word in words {
            assert!(stderr(&output).contains(word), "{word}: {output:?}");
        }
    };
    refused(&["--listen", "0.0.0.0:0", "--memory"], &["0.0.0.0:0", "other machines", "127.0.0.1"]);
    refused(&["--listen", "127.0.0.1:0", "--memory", "--instances", "0"], &["instances"]);
    let cluster = ServingProgram::up(&["--data", folder.path().to_str().unwrap(), "--instances", "1"]);
    let in_use = cluster.ready["nodes"][0]["data"].as_str().unwrap();
    refused(&["--listen", "127.0.0.1:0", "--data", in_use], &[in_use, "served by another process"]);
    refused(
        &["--listen", cluster.endpoint(), "--memory"],
        &[cluster.endpoint(), "another process may have the port"],
    );
    cluster.ok(&["kv", "insert", "k", "v"]);
    let in_use = in_use.to_owned();
    assert_eq!(cluster.end_with(rustix::process::Signal::TERM), Some(0));
    refused(
        &["--listen", "127.0.0.1:0", "--data", &in_use, "--instances", "2"],
        &["has 1 instance,", "the number cannot change"],
    );

    // A folder of other data, a file, and a data folder of a future version.
    std::fs::create_dir_all(data).unwrap();
    std::fs::write(format!("{data}/thesis.tex"), "much work").unwrap();
    refused(&["--listen", "127.0.0.1:0", "--data", data], &[data]);
    assert_eq!(std::fs::read_to_string(format!("{data}/thesis.tex")).unwrap(), "much work");
    let embedded = folder.path().join("embedded");
    zerohop::open(&embedded).unwrap().close().unwrap();
    refused(
        &["--listen", "127.0.0.1:0", "--data", embedded.to_str().unwrap()],
        &[embedded.to_str().unwrap()],
    );
    assert!(zerohop::open(&embedded).is_ok(), "and is unharmed");
    assert!(zerohop::open(&in_use).is_err(), "a node's data is not an embedded store");
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    refused(&["--listen", "127.0.0.1:0", "--data", file.to_str().unwrap()], &[file.to_str().unwrap()]);
}
