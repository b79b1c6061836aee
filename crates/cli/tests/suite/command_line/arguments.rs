//! Arguments and messages of the program: names and positions of arguments, endpoints, refusals,
//! lists as JSON.

use serde_json::Value;

use crate::support::serving::{ServingProgram, code, output, stderr, stdout, zerohop};
use crate::support::terminal::TerminalProgram;

#[test]
fn commands_accept_common_aliases() {
    let cluster = ServingProgram::in_memory();
    for (set, delete) in [("set", "del"), ("put", "rm")] {
        cluster.ok(&["kv", set, "colour", "blue"]);
        assert_eq!(cluster.ok(&["kv", "get", "colour"]), "blue");
        assert_eq!(cluster.ok(&["kv", "ls"]), "colour\n");
        cluster.ok(&["kv", delete, "colour"]);
        assert_eq!(cluster.ok(&["kv", "ls"]), "");
    }
    let done = cluster.run_with(&["txn"], b"set k 1\nget k\ndel k\nput k 2\nrm k\n");
    assert_eq!((code(&done), stdout(&done).as_str()), (0, "1\n"), "{done:?}");
    for list in [&["keyspace"][..], &["node"], &["partition"]] {
        assert_eq!(cluster.ok(&[list, &["ls"]].concat()), cluster.ok(&[list, &["list"]].concat()));
    }
}

#[test]
fn options_are_accepted_before_the_command() {
    let cluster = ServingProgram::in_memory();
    let run = |arguments: &[&str]| {
        let done = output(zerohop(arguments), b"");
        assert_eq!(code(&done), 0, "{done:?}");
        stdout(&done)
    };
    let endpoint = cluster.endpoint();
    run(&["--endpoint", endpoint, "kv", "insert", "k", "v"]);
    assert_eq!(run(&["kv", "--endpoint", endpoint, "-k", "default", "get", "k"]), "v");
    let status: Value = serde_json::from_str(&run(&["--json", "--endpoint", endpoint, "status"])).unwrap();
    assert_eq!(status["nodes"][0]["state"], "up");
}

#[test]
fn usage_omits_options_given_by_environment_variables() {
    let mut command = zerohop(&["token", "revoke"]);
    command.env("ZEROHOP_ENDPOINT", "127.0.0.1:9").env("ZEROHOP_TOKEN_FILE", "token");
    let ended = output(command, b"");
    assert_eq!(code(&ended), 2, "{ended:?}");
    assert!(stderr(&ended).contains("Usage: zerohop token revoke <NAME>"), "{ended:?}");
    // An invalid variable is reported too.
    let mut command = zerohop(&["kv", "lookup", "k"]);
    command.env("ZEROHOP_ENDPOINT", "127.0.0.1:99999");
    let ended = output(command, b"");
    assert!(code(&ended) == 2 && stderr(&ended).contains("127.0.0.1:99999"), "{ended:?}");
}

#[test]
fn option_of_other_command_is_refused_without_value_tip() {
    for arguments in [
        &["man", "--json"][..],
        &["--json", "completions", "bash"],
        &["secret", "new", "file", "--keyspace=k"],
        &["completions", "--keyspace=k", "bash"],
    ] {
        let ended = output(zerohop(arguments), b"");
        assert!(code(&ended) == 2 && stderr(&ended).contains("unexpected argument '--"), "{ended:?}");
        assert!(!stderr(&ended).contains("tip:"), "{ended:?}");
    }
    // A tip that helps stays.
    let ended = output(zerohop(&["status", "--jsn"]), b"");
    assert!(stderr(&ended).contains("a similar argument exists: '--json'"), "{ended:?}");
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    let cluster = ServingProgram::in_memory();
    let variables = [
        "ZEROHOP_TOKEN_FILE",
        "ZEROHOP_TLS_CA",
        "ZEROHOP_SECRET_FILE",
        "ZEROHOP_TLS_CERT",
        "ZEROHOP_TLS_KEY",
    ];
    let mut command = zerohop(&["kv", "insert", "k", "v", "--endpoint", cluster.endpoint()]);
    for name in variables {
        command.env(name, "");
    }
    let done = output(command, b"");
    assert_eq!(code(&done), 0, "{done:?}");
    let mut command = zerohop(&["doctor", "--json", "--timeout", "300ms"]);
    command.env("ZEROHOP_ENDPOINT", "");
    let printed = stdout(&output(command, b""));
    assert!(printed.contains("\"about\":\"127.0.0.1:7400\"") || printed.contains("nodes"), "{printed}");
    let mut up = zerohop(&["up", "--memory", "--nodes", "1", "--port", "0", "--json"]);
    for name in variables.iter().chain(&["ZEROHOP_REDIS_TIMEOUT", "ZEROHOP_TEST_CLOCK", "ZEROHOP_TEST_DISK"])
    {
        up.env(name, "");
    }
    ServingProgram::start(up).ok(&["kv", "insert", "k", "v"]);
    // Help names the variables, empty or not.
    let mut help = zerohop(&["node", "--help"]);
    help.env("ZEROHOP_REDIS_TIMEOUT", "");
    assert!(stdout(&output(help, b"")).contains("[env: ZEROHOP_REDIS_TIMEOUT=]"));
}

#[test]
fn zero_or_too_long_durations_are_refused_with_reason() {
    for command in [
        &["kv", "lookup", "k", "--timeout"][..],
        &["kv", "wait", "k", "--timeout"],
        &["top", "--interval"],
        &["backup", "folder", "--within"],
        &["kv", "insert", "k", "v", "--ttl"],
    ] {
        for (bad, words) in
            [("0", "give at least 1ms"), ("999999999999d", "the longest time allowed is 36500d")]
        {
            let ended = output(zerohop(&[command, &[bad]].concat()), b"");
            assert!(code(&ended) == 2 && stderr(&ended).contains(words), "{command:?} {bad}: {ended:?}");
        }
    }
}

#[test]
fn invalid_address_is_refused_with_one_hint() {
    for (command, option) in [("status", "--endpoint"), ("node", "--join"), ("node", "--listen")] {
        let memory = if command == "node" { &["--memory"][..] } else { &[] };
        for bad in ["localhost:", "a b", "host:0", "host:99999", ":7400"] {
            let ended = output(zerohop(&[&[command, option, bad], memory].concat()), b"");
            assert!(
                code(&ended) == 2 && stderr(&ended).matches("write host:port").count() == 1,
                "{bad}: {ended:?}"
            );
            assert_eq!(stderr(&ended).to_lowercase().matches("write").count(), 1, "{bad}: {ended:?}");
        }
    }
}

/// A script whose own variable is empty must not reach another cluster, at the default address.
#[test]
fn empty_endpoint_is_an_error_that_names_the_option_and_an_empty_variable_is_not() {
    for arguments in [&["status", "--endpoint", ""][..], &["--endpoint=", "kv", "lookup", "k"]] {
        let ended = output(zerohop(arguments), b"");
        let error = stderr(&ended);
        assert!(code(&ended) == 2 && error.contains("'--endpoint <HOST:PORT>'"), "{arguments:?}: {error}");
        assert!(error.contains("there is no address in it: write host:port"), "{arguments:?}: {error}");
    }
    let mut command = zerohop(&["keyspace", "show", "k", "--timeout", "100ms"]);
    let ended = output(
        {
            command.env("ZEROHOP_ENDPOINT", "");
            command
        },
        b"",
    );
    assert_eq!(code(&ended), 3, "{ended:?}");
}

#[test]
fn a_time_for_which_no_redis_command_should_wait_is_refused_in_words() {
    for command in ["node", "up"] {
        for (bad, words) in [
            ("10ms", "a time from 500 ms to 10 min is allowed: a failover takes about two seconds"),
            ("1h", "a time from 500 ms to 10 min is allowed"),
            ("-1", "it is below 0: write a time as in 10s"),
            ("soon", "write a whole number and a unit, as in 10s, 500ms"),
        ] {
            let given = zerohop(&[command, "--memory", &format!("--redis-timeout={bad}")]);
            let mut variable = zerohop(&[command, "--memory"]);
            variable.env("ZEROHOP_REDIS_TIMEOUT", bad);
            for command_line in [given, variable] {
                let ended = output(command_line, b"");
                assert_eq!((code(&ended), stdout(&ended).as_str()), (2, ""), "{command} {bad}: {ended:?}");
                assert!(stderr(&ended).contains(words), "{command} {bad}: {ended:?}");
            }
        }
    }
    let cluster = ServingProgram::up(&["--memory", "--redis-timeout", "2s"]);
    cluster.ok(&["kv", "set", "colour", "blue"]);
}

/// When no endpoint accepts connections, the program does not retry until the time-out, and says
/// so.
#[test]
fn unreachable_endpoints_are_reported_with_reason() {
    let refused = |endpoints: &str, words: &[&str]| {
        let ended = output(zerohop(&["kv", "lookup", "k", "--endpoint", endpoints]), b"");
        assert_eq!(code(&ended), 3, "{ended:?}");
        for word in [words, &["`zerohop up`", "name another node", "--endpoint"]].concat() {
            assert!(stderr(&ended).contains(word), "{word}: {ended:?}");
        }
    };
    refused("127.0.0.1:9", &["cannot connect to 127.0.0.1:9: connection refused"]);
    refused("nosuchhost.invalid:21500", &["cannot resolve host nosuchhost.invalid"]);
    refused("127.0.0.1:9,[::1]:9", &["127.0.0.1:9: connection refused; ", "[::1]:9"]);
    // One endpoint that serves is enough.
    let cluster = ServingProgram::in_memory();
    let endpoints = format!("127.0.0.1:9,{}", cluster.endpoint());
    assert_eq!(code(&output(zerohop(&["status", "--endpoint", &endpoints]), b"")), 0);
}

#[test]
fn refusals_name_the_request_and_a_remedy() {
    let cluster = ServingProgram::in_memory();
    let error = |arguments: &[&str], expected: i32| {
        let output = cluster.run(arguments);
        assert_eq!(code(&output), expected, "{output:?}");
        stderr(&output)
    };
    cluster.ok(&["kv", "insert", "k", "v"]);
    for (until, words) in [
        (&["never"][..], "key \"never\": not there after 200 ms"),
        (&["k", "--absent"], "key \"k\": still there after 200 ms"),
        (&["k", "--equals", "w"], "key \"k\": not this value after 200 ms"),
        (&["k", "--differs", "v"], "key \"k\": still this value after 200 ms"),
    ] {
        let words = format!("zerohop: {words}\n");
        assert_eq!(error(&[&["kv", "wait", "--timeout", "200ms"], until].concat(), 1), words);
    }
    assert!(error(&["kv", "insert", "k", "v", "--ttl", "0s"], 2).contains("lives for no time"));
    for option in [&["--ttl", "-1s"], &["--timeout", "-1s"]] {
        assert!(error(&[&["kv", "insert", "k", "v"], &option[..]].concat(), 2).contains("below 0"));
    }
    assert!(error(&["kv", "insert", "k", "--file", "/dev/zero"], 3).contains("`zerohop blob put`"));
    assert!(error(&["blob", "stat", "none"], 1).starts_with("zerohop: blob \"none\": there is no such blob"));

    cluster.ok(&["kv", "insert", "soon", "v", "--ttl", "7d"]);
    let info = cluster.ok(&["kv", "lookup", "soon", "--info"]);
    // Seven days, less what has passed since.
    assert!(info.starts_with("1 byte, version ") && info.contains(", expires in 6 d 23 h"), "{info}");
}

#[test]
fn lists_are_an_object_a_line() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["keyspace", "create", "papers", "--partitions", "2"]);
    for (list, count) in
        [(&["node", "list"][..], 1), (&["keyspace", "list"], 2), (&["partition", "list", "papers"], 2)]
    {
        let listed = cluster.list(list);
        let listed = listed.as_array().unwrap();
        assert!(listed.len() == count && listed.iter().all(Value::is_object), "{list:?}: {listed:?}");
    }
    // That there is nothing to recover is an answer too.
    assert_eq!(cluster.ok(&["recover", "--json"]), "{\"lost\":0,\"damaged\":0,\"missing\":[]}\n");
}

#[test]
fn a_terminal_is_not_given_binary() {
    let cluster = ServingProgram::in_memory();
    assert_eq!(code(&cluster.run_with(&["blob", "put", "binary"], b"\x1b[2J\0")), 0);
    assert_eq!(code(&cluster.run_with(&["blob", "put", "text"], "größe\n".as_bytes())), 0);
    for read in [&["blob", "get"], &["blob", "read"]] {
        let (screen, _, end) =
            TerminalProgram::on_all_streams(&cluster, &[&read[..], &["binary"]].concat()).end();
        assert!(code(&end) == 3 && screen.contains("no text") && !screen.contains('\u{1b}'), "{screen:?}");
        let (screen, _, end) =
            TerminalProgram::on_all_streams(&cluster, &[&read[..], &["text"]].concat()).end();
        assert_eq!((code(&end), screen.as_str()), (0, "größe\r\n"));
        assert_eq!(cluster.run(&[&read[..], &["binary"]].concat()).stdout, b"\x1b[2J\0");
    }
}

#[test]
fn the_last_line_of_a_log_of_json_is_json() {
    let cluster = ServingProgram::in_memory();
    let listen = ["node", "--memory", "--listen", cluster.endpoint(), "--log-format", "json"];
    let ended = output(zerohop(&listen), b"");
    assert_eq!(code(&ended), 3, "{ended:?}");
    let lines: Vec<Value> =
        stderr(&ended).lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let last = lines.last().unwrap();
    assert_eq!(last["level"], "ERROR", "{last}");
    assert!(last["message"].as_str().unwrap().contains(cluster.endpoint()), "{last}");
}
