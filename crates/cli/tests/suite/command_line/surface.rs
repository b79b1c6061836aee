//! The interface for users and their scripts, compared with committed lists: commands and their
//! options, metrics, keys of JSON.
//!
//! The lists are in `tests/surface`. `ZEROHOP_WRITE_SURFACE=1` writes them.

mod key_paths;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::cluster::nodes::NodeCluster;
use crate::command_line::secrets::new_secret;
use crate::support::serving::{ServingProgram, code, output, stdout, zerohop};
use crate::support::{GIVE_UP_AFTER, wait_for};

use self::key_paths::KeyPaths;

/// A list: one line for each item.
type SurfaceList = BTreeSet<String>;

/// A command with `--json`: its name, its arguments, its standard input, its exit code.
struct JsonRow(&'static str, &'static str, &'static str, i32);

const fn row(command: &'static str, arguments: &'static str) -> JsonRow {
    JsonRow(command, arguments, "", 0)
}

/// A command with a negative answer.
const fn no(command: &'static str, arguments: &'static str) -> JsonRow {
    JsonRow(command, arguments, "", 1)
}

/// The rows in order, run in one folder, which has a `file`; `ÿ` is the byte 0xff, and RECEIPT the last receipt that was printed.
/// A new command with `--json` needs a row.
const ROWS: &[JsonRow] = &[
    row("keyspace create", "ks --partitions 4"),
    row("keyspace alter", "ks --durability memory"),
    row("keyspace split", "ks"),
    row("keyspace show", "ks"),
    row("keyspace list", ""),
    row("kv insert", "k v"),
    row("kv insert", "e v --ttl 1h"),
    row("kv lookup", "e --info"),
    // The key and value are not UTF-8.
    row("kv insert", "ÿ ÿ"),
    row("kv lookup", "ÿ"),
    row("kv append", "ÿl ÿ"),
    row("kv lookup", "ÿl"),
    row("kv cas", "ÿ v --expect ÿ"),
    no("kv insert", "k v --if-absent"),
    row("kv lookup", "k"),
    row("kv lookup", "k --info"),
    no("kv lookup", "none"),
    row("kv append", "l a b"),
    row("kv lookup", "l"),
    row("kv lookup", "l --info"),
    row("kv extend", "k w"),
    row("kv incr", "n"),
    row("kv cas", "k x --expect vw"),
    no("kv cas", "k x --expect other"),
    row("kv transform", "t add 1"),
    row("kv scan", ""),
    row("keyspace create", "ordered --ordered"),
    row("kv insert", "-k ordered k v"),
    row("kv scan", "-k ordered --values"),
    row("kv wait", "k"),
    row("kv insert", "t v"),
    row("kv take", "t"),
    row("kv remove", "k"),
    no("kv remove", "k"),
    JsonRow("txn", "", TRANSACTION, 0),
    JsonRow("txn", "", "insert a w --if-absent\n", 1),
    JsonRow("txn", "", "blob stat none\n", 0),
    JsonRow("txn", "", "append a x\n", 3),
    row("blob put", "b file"),
    no("blob put", "b file"),
    row("blob write", "b w --at 1"),
    no("blob write", "none w --at 1"),
    row("blob extend", "b more"),
    row("blob truncate", "b 8"),
    row("blob transform", "b add 1"),
    row("blob stat", "b"),
    no("blob stat", "none"),
    row("blob get", "b"),
    row("blob get", "b got"),
    row("blob read", "b"),
    JsonRow("kv append", "n v", "", 3),
    JsonRow("blob stat", "b --set-attributes x -k none", "", 3),
    no("blob get", "none"),
    no("blob read", "none"),
    row("blob put", "ÿ file"),
    row("blob get", "ÿ"),
    row("blob ls", ""),
    row("blob rm", "b"),
    no("blob rm", "b"),
    row("backup", "backup -k ks"),
    row("verify", "backup"),
    row("verify", ""),
    row("restore", "backup --overwrite"),
    row("bench kv", "--ops 20 --clients 1"),
    row("bench ycsb", "a --records 20 --ops 20 --clients 1"),
    row("bench txn", "--ops 20 --clients 1 --accounts 10"),
    row("bench blob", "--ops 4 --clients 1 --blobs 1 --bytes 4KiB"),
    row("partition list", "ks"),
    row("partition split", "ks"),
    row("keyspace create", "regions --ordered --split-at b"),
    row("region split", "regions --at m"),
    row("region list", "regions"),
    row("recover", ""),
    row("recover acknowledge", ""),
    row("node list", ""),
    row("node managers", ""),
    row("token new", "other --all read"),
    row("token revoke", "other"),
    row("token list", ""),
    row("secret new", "another"),
    row("secret bearer", ""),
    row("tls new", "tls --hosts 127.0.0.1"),
    row("tls add", "tls other --hosts 127.0.0.1"),
    row("object mb", "bucket"),
    no("object mb", "bucket"),
    row("object put", "bucket/a/b file --metadata colour=blue"),
    row("object put", "bucket/c file"),
    row("object ls", ""),
    row("object ls", "bucket"),
    row("object get", "bucket/c copy"),
    row("object stat", "bucket/a/b"),
    row("object cp", "bucket/c bucket/d"),
    row("object check", ""),
    row("object rm", "bucket/d"),
    row("object rm", "bucket --recursive"),
    row("object rb", "bucket"),
    no("object rb", "bucket"),
    row("log create", "log --partitions 2 --retention 7d"),
    no("log create", "log"),
    row("log append", "log"),
    row("log append", "log a b --partition 0 --key k --header colour=blue"),
    row("log append", "log ÿ --partition 1 --key ÿ"),
    row("log list", ""),
    row("log info", "log"),
    row("log alter", "log --partitions 3 --retention 30d"),
    row("log read", "log"),
    row("log tail", "log --time 1h --limit 3"),
    row("log pop", "log"),
    row("log commit", "log group --to next"),
    no("log commit", "log group --partition 0 --to 9"),
    row("log groups", "log"),
    row("status", ""),
    row("log trim", "log"),
    no("log info", "none"),
    row("log drop", "log --yes"),
    row("queue create", "queue --tries 1"),
    no("queue create", "queue"),
    row("queue push", "queue a b --group g"),
    row("queue push", "queue ÿ --name n"),
    row("queue list", ""),
    row("queue stats", "queue"),
    row("status", ""),
    row("queue pop", "queue"),
    row("queue release", "queue RECEIPT"),
    row("queue dead", "queue"),
    row("queue redrive", "queue"),
    row("queue pop", "queue --limit 2"),
    row("queue extend", "queue RECEIPT"),
    row("queue ack", "queue RECEIPT"),
    no("queue extend", "queue RECEIPT"),
    row("queue purge", "queue --yes"),
    no("queue pop", "none"),
    row("queue drop", "queue --yes"),
    row("status", ""),
    row("status", "--wait settled"),
    row("top", "--waits --once --interval 100ms"),
    row("doctor", ""),
    // The answer has advice.
    no("doctor", "--endpoint 127.0.0.1:1 --timeout 1s"),
    row("sim", "--seed 1 --scenario single"),
    row("keyspace drop", "ks --yes"),
];

const TRANSACTION: &str = "insert a v\nlookup a\nincr i\nextend e v\nappend l x\nlookup l\nlookup none\nremove none\ntransform u add 1\n\
                           blob create c\nblob extend c x\nblob stat c\nblob read c\nblob truncate c 0\n";

/// Commands with `--json` in the list that no row runs.
const NOT_RUN: &[(&str, &str)] = &[
    ("demo", "it starts clusters of its own, for ten seconds"),
    ("folder new-cluster", "asked once the cluster has ended"),
    ("node", "its first line is read"),
    ("node drain", "a node that stands alone is not drained"),
    ("node remove", "a node that stands alone is not removed"),
    ("node up", "a node that stands alone is not drained"),
    ("partition move", "a node that stands alone moves nothing"),
    ("partition release", "a node that stands alone moves nothing"),
    ("s3", "its first line is read"),
    ("up", "its first line is read"),
    ("watch", "it runs while a record is changed"),
    ("watch list", "asked while the watch runs"),
];

#[test]
fn commands_metrics_and_json_are_those_of_the_committed_lists() {
    let folder = crate::support::folder();
    fs::write(folder.path().join("file"), "some words\n").unwrap();
    let (commands, metrics, json) = std::thread::scope(|scope| {
        let commands = scope.spawn(commands);
        let (metrics, json) = answers(folder.path());
        (commands.join().unwrap(), metrics, json)
    });
    check_every_json_row(&commands);
    let lists = [("commands.txt", commands), ("metrics.txt", metrics), ("json.txt", json)];
    let differing: Vec<String> = lists.iter().filter_map(|(name, lines)| differing(name, lines)).collect();
    assert!(
        differing.is_empty(),
        "{}\nUsers and their scripts see these differences (-: committed, +: what the program says). If they are meant, say so in \
         CHANGELOG.md and write the lists:\n\
         ZEROHOP_WRITE_SURFACE=1 cargo test -p zerohop --test suite command_line::surface",
        differing.join("\n")
    );
}

/// Every command with `--json` has a row, or a reason for its absence.
fn check_every_json_row(commands: &SurfaceList) {
    let flagged = |line: &String| Some(line.strip_prefix("zerohop ")?.strip_suffix(" --json")?.to_owned());
    let flagged: BTreeSet<String> = commands.iter().filter_map(flagged).collect();
    let covered =
        ROWS.iter().map(|JsonRow(command, ..)| *command).chain(NOT_RUN.iter().map(|(command, _)| *command));
    let covered: BTreeSet<String> = covered.map(str::to_owned).collect();
    let without: Vec<&String> = flagged.difference(&covered).collect();
    assert!(without.is_empty(), "give these commands a row: {without:?}");
    let gone: Vec<&String> = covered.difference(&flagged).collect();
    assert!(gone.is_empty(), "no such commands have --json: {gone:?}");
}

/// The lines that differ from the committed list; if the variable asks for it, the list is written
/// instead.
fn differing(name: &str, lines: &SurfaceList) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/surface").join(name);
    if std::env::var_os("ZEROHOP_WRITE_SURFACE").is_some_and(|value| value == "1") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, lines.iter().flat_map(|line| [line, "\n"]).collect::<String>()).unwrap();
        return None;
    }
    let committed = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let differences = differences(&committed.lines().map(str::to_owned).collect(), lines);
    (!differences.is_empty()).then(|| format!("crates/cli/tests/surface/{name}:\n{differences}"))
}

fn differences(committed: &SurfaceList, lines: &SurfaceList) -> String {
    let all =
        committed.union(lines).filter_map(|line| match (committed.contains(line), lines.contains(line)) {
            (true, true) => None,
            (true, false) => Some(format!("- {line}\n")),
            (false, _) => Some(format!("+ {line}\n")),
        });
    all.collect()
}

// Commands.

/// Every command, its usage, its arguments and its options, from its help.
fn commands() -> SurfaceList {
    let mut lines = SurfaceList::new();
    let mut left = vec![Vec::new()];
    while let Some(words) = left.pop() {
        let mut help = zerohop(&[words.as_slice(), &["--help".to_owned()]].concat());
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("ZEROHOP_") {
                help.env_remove(variable);
            }
        }
        let answer = help.output().unwrap();
        assert_eq!(code(&answer), 0, "{answer:?}");
        let name = [&["zerohop".to_owned()], words.as_slice()].concat().join(" ");
        for below in add_help(&name, &stdout(&answer), &mut lines) {
            left.push([words.as_slice(), &[below]].concat());
        }
    }
    lines
}

/// Adds the help of a command to the list, and returns its subcommands.
fn add_help(name: &str, help: &str, lines: &mut SurfaceList) -> Vec<String> {
    let mut below = Vec::new();
    let mut entries: Vec<(String, Vec<&str>)> = Vec::new();
    let mut section = "";
    for line in help.lines() {
        let indent = line.len() - line.trim_start().len();
        if indent == 0 {
            if let Some(usage) = line.strip_prefix("Usage: ") {
                lines.insert(format!("{name} usage: {usage}"));
            }
            if !line.is_empty() {
                section = line;
            }
        } else if ["Examples:", "Exit codes:"].contains(&section) {
            // The program tests its examples itself, and other tests run into each exit code.
        } else if !["Commands:", "Arguments:", "Options:"].contains(&section) && section.ends_with(':') {
            panic!("{name}: the help has a section that this test does not know: {section}");
        } else if indent == 2 || (indent == 6 && line.trim_start().starts_with("--")) {
            let (head, text) = line.trim_start().split_once("  ").unwrap_or((line.trim_start(), ""));
            match section {
                "Commands:" if head == "help" => entries.push((String::new(), Vec::new())),
                "Commands:" => {
                    below.push(head.to_owned());
                    entries.push((format!("{name} {head}"), vec![text]));
                }
                _ => entries.push((format!("{name} {head}"), vec![text])),
            }
        } else if let Some((_, text)) = entries.last_mut() {
            text.push(line);
        }
    }
    for (head, text) in
        entries.iter().filter(|(head, _)| below.iter().any(|one| *head == format!("{name} {one}")))
    {
        let about = text.iter().flat_map(|line| line.split_whitespace()).collect::<Vec<_>>().join(" ");
        lines.insert(format!("{head}: {}", about.split(" [").next().unwrap()));
    }
    lines.extend(
        entries
            .iter()
            .filter(|(head, _)| !head.is_empty())
            .map(|(head, text)| format!("{head}{}", facts(text))),
    );
    below
}

/// The bracketed parts in the help text of an argument, an option or a command.
fn facts(text: &[&str]) -> String {
    let values = text.iter().skip_while(|line| line.trim() != "Possible values:");
    let values: Vec<&str> =
        values.filter_map(|line| Some(line.trim().strip_prefix("- ")?.split_once(':')?.0)).collect();
    let text = text.iter().flat_map(|line| line.split_whitespace()).collect::<Vec<_>>().join(" ");
    let mut facts = String::new();
    for part in text.split('[').skip(1).filter_map(|part| Some(part.split_once(']')?.0)) {
        match part.split_once(": ") {
            // The value of the variable follows its name.
            Some(("env", _)) => facts += &format!(" [{}]", part.split('=').next().unwrap()),
            Some(("default" | "alias" | "aliases" | "short aliases" | "possible values", _)) => {
                facts += &format!(" [{part}]");
            }
            _ => {}
        }
    }
    if !values.is_empty() {
        facts += &format!(" [possible values: {}]", values.join(", "));
    }
    facts
}

// Metrics and JSON.

/// The metrics of a node, and the JSON of all rows and of HTTP.
fn answers(folder: &Path) -> (SurfaceList, SurfaceList) {
    let secret = new_secret(folder, "secret");
    let within = |mut command: Command| {
        command.current_dir(folder).env("ZEROHOP_SECRET_FILE", &secret);
        command
    };
    let mut paths = KeyPaths::default();
    let alone = ServingProgram::start(within(zerohop(&command_words(
        "node",
        "--memory --instances 1 --listen 127.0.0.1:0 --json",
    ))));
    paths.add("node", &alone.ready);
    drop(alone);

    let up = "--nodes 1 --instances 1 --port 0 --data data --s3 0 --s3-metrics 0 --json";
    let cluster = ServingProgram::start(within(zerohop(&command_words("up", up))));
    paths.add("up", &cluster.ready);
    let query = |command: &str, arguments: &str, input: &str, expected: i32| {
        let mut program = within(zerohop(&command_words(command, arguments)));
        program.env("ZEROHOP_ENDPOINT", cluster.endpoint());
        let answer = output(program, input.as_bytes());
        assert_eq!(code(&answer), expected, "zerohop {command} {arguments}: {answer:?}");
        stdout(&answer)
    };
    query("token new", "tok --all read --expires 1h", "", 0);
    let mut receipt = String::new();
    for JsonRow(command, arguments, input, expected) in ROWS {
        let arguments = arguments.replace("RECEIPT", &receipt);
        let printed = query(command, &format!("{arguments} --json"), input, *expected);
        if let Some(last) = printed.lines().rev().find_map(last_receipt) {
            receipt = last;
        }
        assert!(!printed.is_empty(), "zerohop {command} {arguments} --json says nothing");
        paths.add_lines(command, &printed);
    }
    query("keyspace alter", "default --history 1h", "", 0);
    let mut watch = within(zerohop(&command_words("watch", "--marks --limit 1 --json")));
    let watch = watch.env("ZEROHOP_ENDPOINT", cluster.endpoint()).stdout(Stdio::piped());
    let mut watch = watch.spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut printed = lines.next().expect("a mark").unwrap();
    paths.add_lines("watch list", &query("watch list", "--json", "", 0));
    query("kv insert", "watched v", "", 0);
    lines.for_each(|line| printed = format!("{printed}\n{}", line.unwrap()));
    assert!(watch.wait().unwrap().success());
    paths.add_lines("watch", &printed);
    let bearer = query("secret bearer", "", "", 0);
    for path in ["/health", "/status"] {
        paths.add_lines(&format!("GET {path}"), &get(cluster.endpoint(), path, bearer.trim()));
    }
    let text = || get(cluster.endpoint(), "/metrics?waits", bearer.trim());
    let (gateway, of_gateway) = gateway_metrics(within, &cluster, bearer.trim());
    paths.add("s3", &gateway.ready);
    let health = gateway.ready["metrics"].as_str().unwrap();
    paths.add_lines("GET /health of a gateway", &get(health, "/health", ""));
    let mut metrics = metrics(&wait_for("the instance's metrics", text, |text| {
        text.contains("zerohop_instances_answering 1.0\n")
    }));
    metrics.extend(of_gateway);
    assert_eq!(gateway.end_with(Signal::TERM), Some(0));
    assert_eq!(cluster.end_with(Signal::TERM), Some(0));
    // A node reports no figures of other nodes and of layers, so that only the command has a verdict, totals, queues and logs.
    let mut of_command = paths.of("status");
    let is_of_command = |path: &str| {
        ["verdict", "totals", "queues", "logs", "unread_keyspaces"]
            .contains(&path.split(['.', '[']).next().unwrap_or_default())
    };
    of_command.retain(|path, _| !is_of_command(path));
    assert_eq!(paths.of("GET /status"), of_command, "both have the same names");

    let made = within(zerohop(&command_words("folder new-cluster", "data/node-1 --json"))).output().unwrap();
    assert_eq!(code(&made), 0, "{made:?}");
    paths.add_lines("folder new-cluster", &stdout(&made));

    fs::create_dir(folder.join("group")).unwrap();
    let mut group = NodeCluster::start(&folder.join("group"), 1);
    group.wait_until_complete();
    group.kill(0);
    let (code, printed, error) = group.run(&[
        "recover",
        "--control-group",
        folder.join("group/node-0").to_str().unwrap(),
        "--accept-loss",
        "--json",
    ]);
    assert_eq!(code, 0, "{error}");
    paths.add_lines("recover --control-group", &printed);
    (metrics, paths.lines())
}

/// A gateway of the cluster, and its metrics behind a request.
fn gateway_metrics(
    within: impl Fn(Command) -> Command,
    cluster: &ServingProgram,
    bearer: &str,
) -> (ServingProgram, SurfaceList) {
    let arguments = "--listen 127.0.0.1:0 --metrics 127.0.0.1:0 --json --endpoint";
    let mut command = within(zerohop(&command_words("s3", arguments)));
    command.arg(cluster.endpoint());
    let gateway = ServingProgram::start(command);
    let [clients, monitors] = ["listen", "metrics"].map(|name| gateway.ready[name].as_str().unwrap());
    let mut stream = TcpStream::connect(clients).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    let text = || get(monitors, "/metrics", bearer);
    let text = wait_for("the request", text, |text| text.contains("operation="));
    let listed = metrics(&text);
    (gateway, listed)
}

/// The receipt of a message in a line of JSON.
fn last_receipt(line: &str) -> Option<String> {
    let object: Value = serde_json::from_str(line).ok()?;
    let receipt = object.get("new_receipt").or_else(|| object.get("receipt"))?;
    Some(receipt.as_str()?.to_owned())
}

fn command_words(command: &str, arguments: &str) -> Vec<OsString> {
    let bytes = |word: &str| word.chars().map(|one| u8::try_from(one).unwrap()).collect();
    let words = command.split_whitespace().chain(arguments.split_whitespace());
    words.map(|word| OsString::from_vec(bytes(word))).collect()
}

/// The body of a manager's answer.
fn get(endpoint: &str, path: &str, bearer: &str) -> String {
    let mut stream = TcpStream::connect(endpoint).unwrap();
    stream.set_read_timeout(Some(GIVE_UP_AFTER)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {endpoint}\r\nConnection: close\r\nAuthorization: Bearer {bearer}\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    body.to_owned()
}

/// Every series with its type and the names of its labels.
fn metrics(text: &str) -> SurfaceList {
    let typed = |line: &str| {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        Some((name.to_owned(), kind.to_owned()))
    };
    let types: BTreeMap<String, String> = text.lines().filter_map(typed).collect();
    let mut silent: BTreeSet<&String> = types.keys().collect();
    let mut series: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (name, _) = line.split_once([' ', '{']).unwrap();
        let all = line.rsplit_once(' ').unwrap().0.strip_prefix(name).unwrap();
        // No value contains a quotation mark.
        let labels = all.split('"').step_by(2).filter_map(|part| part.strip_suffix('='));
        series.entry(name).or_default().extend(labels.map(|label| label.trim_start_matches(['{', ','])));
    }
    let mut lines = SurfaceList::new();
    for (name, labels) in series {
        let ends = ["", "_total", "_bucket", "_sum", "_count"];
        let family = ends.iter().find_map(|end| types.get_key_value(name.strip_suffix(end)?));
        let (family, kind) = family.unwrap_or_else(|| panic!("{name} has no type"));
        silent.remove(family);
        let labels = labels.into_iter().collect::<Vec<_>>().join(", ");
        lines.insert(format!("{name} {kind} {{{labels}}}"));
    }
    lines.extend(silent.into_iter().map(|family| format!("{family} {} without series", types[family])));
    lines
}

#[test]
fn help_is_parsed_in_both_layouts() {
    let help = "Does it.\n\nUsage: zerohop do [OPTIONS] <KEY>\n\nArguments:\n  <KEY>\n          The key\n\nOptions:\n      \
                --port <PORT>\n          Where, as in [1] [default:\n          any free one]\n          \n          [env: \
                ZEROHOP_PORT=7]\n\n  -k, --kind <KIND>\n          What\n\n          Possible values:\n          - one: first\n          \
                - two: second\n\n  -h, --help  Print help [aliases: h]\n\nExit codes:\n  0    done\n       and more\n";
    let mut lines = SurfaceList::new();
    assert_eq!(add_help("zerohop do", help, &mut lines), [""; 0]);
    let expected = [
        "zerohop do --port <PORT> [default: any free one] [env: ZEROHOP_PORT]",
        "zerohop do -h, --help [aliases: h]",
        "zerohop do -k, --kind <KIND> [possible values: one, two]",
        "zerohop do <KEY>",
        "zerohop do usage: zerohop do [OPTIONS] <KEY>",
    ];
    assert_eq!(lines.iter().collect::<Vec<_>>(), expected);

    let group = "Commands:\n  scan  Prints keys\n        and more [alias: ls]\n  help  Print this\n";
    assert_eq!(add_help("zerohop kv", group, &mut lines), ["scan"]);
    assert!(lines.contains("zerohop kv scan [alias: ls]"), "{lines:?}");
    assert!(lines.contains("zerohop kv scan: Prints keys and more"), "{lines:?}");
    let renamed = lines.iter().map(|line| line.replace("--port", "--gate")).collect();
    assert_eq!(
        differences(&lines, &renamed),
        "+ zerohop do --gate <PORT> [default: any free one] [env: ZEROHOP_PORT]\n- zerohop do --port <PORT> [default: any free one] \
         [env: ZEROHOP_PORT]\n"
    );
}

#[test]
fn metrics_are_read_without_their_values() {
    let text = "# TYPE a counter\n# HELP a A.\na_total{instance=\"1\"} 1\na_total{instance=\"2\",kind=\"x, y\"} 1\n# TYPE b gauge\nb 1.0\n\
                # TYPE c gauge\n# EOF\n";
    let expected = ["a_total counter {instance, kind}", "b gauge {}", "c gauge without series"];
    assert_eq!(metrics(text).iter().collect::<Vec<_>>(), expected);
}
