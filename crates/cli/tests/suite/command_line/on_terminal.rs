//! Every command on a terminal: its exit code is that of a pipe, and it prints only text, colours
//! and progress.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Signal, kill_process};

use crate::command_line::secrets::{new_secret, up};
use crate::support::process::RunningProcess;
use crate::support::serving::{ServingProgram, output, zerohop};
use crate::support::terminal::TerminalProgram;
use crate::support::wait_for;

/// A run of a command: its name, its arguments, the typed input, the exit code, and, if it does not
/// end by itself, the output at which it is interrupted.
struct Row(&'static str, &'static str, &'static str, i32, Option<&'static str>);

/// A command that ends by itself, with success. `@` is another name in each run.
const fn row(command: &'static str, arguments: &'static str) -> Row {
    Row(command, arguments, "", 0, None)
}

/// A command that fails, or prints its usage.
const fn refused(command: &'static str, arguments: &'static str, code: i32) -> Row {
    Row(command, arguments, "", code, None)
}

/// The runs, in this order. A new command needs a row.
const ROWS: &[Row] = &[
    refused("", "", 2),
    row("", "--help"),
    row("keyspace create", "ks-@ --partitions 4"),
    row("keyspace alter", "ks-@ --durability memory"),
    row("keyspace split", "ks-@"),
    row("keyspace show", "ks-@"),
    row("keyspace list", ""),
    refused("keyspace", "", 2),
    row("kv insert", "k-@ v"),
    row("kv lookup", "k-@"),
    row("kv append", "l-@ a b"),
    row("kv extend", "k-@ w"),
    row("kv incr", "n-@"),
    row("kv cas", "k-@ x --expect vw"),
    row("kv transform", "t-@ add 1"),
    row("kv scan", ""),
    row("kv wait", "k-@"),
    row("kv take", "n-@"),
    row("kv remove", "k-@"),
    refused("kv", "", 2),
    Row("txn", "", "insert a-@ v\nlookup a-@\n", 0, None),
    row("blob put", "b-@ file"),
    row("blob get", "b-@"),
    row("blob read", "b-@"),
    row("blob write", "b-@ w --at 1"),
    row("blob extend", "b-@ more"),
    row("blob truncate", "b-@ 8"),
    row("blob transform", "b-@ add 1"),
    row("blob stat", "b-@"),
    row("blob ls", ""),
    row("blob rm", "b-@"),
    refused("blob", "", 2),
    row("object mb", "bucket-@"),
    row("object put", "bucket-@/a file"),
    row("object ls", "bucket-@"),
    row("object stat", "bucket-@/a"),
    row("object get", "bucket-@/a"),
    row("object cp", "bucket-@/a bucket-@/b"),
    row("object check", ""),
    row("object rm", "bucket-@ --recursive"),
    row("object rb", "bucket-@"),
    refused("object", "", 2),
    row("log create", "log-@ --retention 7d"),
    Row("log append", "log-@", "a\nb\n", 0, None),
    row("log append", "log-@ c"),
    row("log list", ""),
    row("log info", "log-@"),
    row("log alter", "log-@ --partitions 2"),
    row("log read", "log-@"),
    row("log pop", "log-@"),
    row("log commit", "log-@ group --to first"),
    row("log groups", "log-@"),
    row("log trim", "log-@"),
    Row("watch", "--limit 0", "", 0, None),
    row("watch list", ""),
    Row("log tail", "log-@ --time 1h", "", 0, Some("c")),
    row("log drop", "log-@ --yes"),
    refused("log", "", 2),
    row("queue create", "queue-@ --tries 1"),
    Row("queue push", "queue-@", "a\nb\n", 0, None),
    row("queue push", "queue-@ c"),
    row("queue list", ""),
    row("queue stats", "queue-@"),
    row("queue pop", "queue-@"),
    row("queue pop", "queue-@ --ack"),
    refused("queue ack", "queue-@ none", 2),
    refused("queue release", "queue-@ none", 2),
    refused("queue extend", "queue-@ none", 2),
    row("queue dead", "queue-@"),
    row("queue redrive", "queue-@"),
    row("queue purge", "queue-@ --yes"),
    row("queue drop", "queue-@ --yes"),
    refused("queue", "", 2),
    row("backup", "backup -k ks-@"),
    row("verify", "backup"),
    row("restore", "backup --overwrite"),
    row("bench kv", "--ops 20 --clients 1 -k ks-@"),
    row("bench ycsb", "a --records 20 --ops 20 --clients 1 -k ks-@"),
    row("bench txn", "--ops 20 --clients 1 --accounts 10 -k ks-@"),
    row("bench blob", "--ops 4 --clients 1 --blobs 1 --bytes 4KiB -k ks-@"),
    refused("bench", "", 2),
    row("partition list", "ks-@"),
    refused("partition move", "ks-@/0 --to 1", 3),
    refused("partition release", "ks-@/0", 3),
    row("partition split", "ks-@"),
    row("keyspace create", "ordered-@ --ordered"),
    row("region split", "ordered-@ --at m"),
    row("region list", "ordered-@"),
    refused("region", "", 2),
    refused("partition", "", 2),
    row("keyspace drop", "ks-@ --yes"),
    row("status", ""),
    row("status", "--wait whole"),
    row("top", "--once --interval 100ms"),
    row("top", "--waits --once --interval 100ms"),
    row("doctor", ""),
    row("recover", ""),
    row("recover acknowledge", ""),
    row("node list", ""),
    row("node managers", ""),
    refused("node drain", "1", 3),
    refused("node up", "1", 3),
    refused("node remove", "1", 3),
    Row("node", "--memory --instances 1 --listen 127.0.0.1:0", "", 0, Some("ready_after_ms")),
    Row("up", "--nodes 1 --instances 1 --port 0 --data data", "", 0, Some("Ready.")),
    Row("s3", "--listen 127.0.0.1:0", "", 0, Some("Ready.")),
    row("folder new-cluster", "data/node-1"),
    refused("folder", "", 2),
    row("secret new", "secret"),
    row("secret bearer", ""),
    refused("secret", "", 2),
    row("tls new", "tls --hosts 127.0.0.1"),
    row("tls add", "tls other --hosts localhost"),
    refused("tls", "", 2),
    row("token new", "token-@ --all read --expires 1h"),
    row("token list", ""),
    row("token revoke", "token-@"),
    refused("token", "", 2),
    row("completions", "bash"),
    row("man", ""),
    row("sim", "--seed 1 --scenario single"),
    refused("demo", "nowhere", 3),
    refused("demo", "--no-such-option", 2),
];

/// A cluster with its secret, and a folder for the files of commands.
struct TerminalBench<'b> {
    cluster: &'b ServingProgram,
    secret: &'b Path,
    folder: &'b Path,
    way: &'static str,
}

impl TerminalBench<'_> {
    fn command(&self, Row(command, arguments, ..): &Row) -> Command {
        let arguments = arguments.replace('@', self.way);
        let words: Vec<&str> = command.split_whitespace().chain(arguments.split_whitespace()).collect();
        let mut command = zerohop(&words);
        command.env("ZEROHOP_ENDPOINT", self.cluster.endpoint()).env("ZEROHOP_SECRET_FILE", self.secret);
        command.current_dir(self.folder);
        command
    }

    /// The exit code without a terminal.
    fn in_pipes(&self, row: &Row) -> Option<i32> {
        let Row(_, _, typed, _, words) = row;
        let mut command = self.command(row);
        let Some(words) = words else {
            return output(command, typed.replace('@', self.way).as_bytes()).status.code();
        };
        let log = self.folder.join("log");
        let file = File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let mut running = RunningProcess::start(&mut command);
        wait_for("it serves", || fs::read_to_string(&log).unwrap(), |log| log.contains(words));
        kill_process(running.pid(), Signal::INT).unwrap();
        running.ended().code()
    }

    /// The exit code on a terminal, and the bytes printed there.
    fn on_terminal(&self, row: &Row) -> (Option<i32>, String) {
        let Row(_, _, typed, _, words) = row;
        let mut terminal = TerminalProgram::all_of(self.command(row));
        if !typed.is_empty() {
            // Ctrl-D ends the input.
            terminal.types(&format!("{}\u{4}", typed.replace('@', self.way)));
        }
        if let Some(words) = words {
            let is_there = |screen: &String| screen.contains(words) || foreign(screen).is_some();
            wait_for("it serves", || terminal.output(), is_there);
            terminal.signal(Signal::INT);
        }
        let (screen, _, ended) = terminal.end();
        (ended.status.code(), screen)
    }
}

/// Texts that no command may print.
const FOREIGN: [&str; 5] = ["panicked", "backtrace", "thread '", "tracing-subscriber", "RUST_"];

/// A part of the output that is neither text nor a known sequence: colours, and the redrawing of a
/// line.
fn foreign(screen: &str) -> Option<String> {
    if let Some(words) = FOREIGN.iter().find(|words| screen.contains(**words)) {
        return Some((*words).to_owned());
    }
    let mut rest = screen;
    while let Some(at) = rest.find(|one: char| one.is_control() && !['\n', '\r', '\t'].contains(&one)) {
        rest = &rest[at..];
        let sequence = rest.strip_prefix("\u{1b}[").and_then(|behind| {
            let parameters = behind.find(|one: char| !one.is_ascii_digit() && one != ';')?;
            behind[parameters..].starts_with(['m', 'K']).then(|| 2 + parameters + 1)
        });
        let Some(length) = sequence else {
            return Some(rest.chars().take(12).collect::<String>().escape_debug().to_string());
        };
        rest = &rest[length..];
    }
    None
}

#[test]
fn commands_end_equally_on_terminal_and_pipe_without_foreign_bytes() {
    let folder = crate::support::folder();
    let folders = ["pipe", "terminal", "pages"].map(|name| folder.path().join(name));
    for one in &folders {
        fs::create_dir(one).unwrap();
        fs::write(one.join("file"), "some words\n").unwrap();
    }
    let [pipe, terminal, pages] = &folders;
    // Every command has a manual page.
    let written = zerohop(&["man", "--dir", pages.to_str().unwrap()]).output().unwrap();
    assert!(written.status.success(), "{written:?}");
    let page = |name: &str| {
        Some(name.strip_prefix("zerohop")?.strip_suffix(".1")?.trim_start_matches('-').to_owned())
    };
    let names = fs::read_dir(pages).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let commands: BTreeSet<String> = names.filter_map(|name| page(&name)).collect();
    let tried: BTreeSet<String> = ROWS.iter().map(|Row(command, ..)| command.replace(' ', "-")).collect();
    let without: Vec<&String> = commands.difference(&tried).collect();
    assert!(without.is_empty(), "give these commands a row: {without:?}");
    let gone: Vec<&String> = tried.difference(&commands).collect();
    assert!(gone.is_empty(), "there are no such commands: {gone:?}");

    let secret = new_secret(folder.path(), "secret");
    let cluster = up(&secret, &["--nodes", "1"]);
    let bench = |folder, way| TerminalBench { cluster: &cluster, secret: &secret, folder, way };
    let (in_pipes, on_terminal) = (bench(pipe, "pipe"), bench(terminal, "terminal"));
    let (piped, shown) = std::thread::scope(|scope| {
        let piped = scope.spawn(|| ROWS.iter().map(|row| in_pipes.in_pipes(row)).collect::<Vec<_>>());
        let shown: Vec<_> = ROWS.iter().map(|row| on_terminal.on_terminal(row)).collect();
        (piped.join().unwrap(), shown)
    });
    let mut wrong = Vec::new();
    for ((Row(command, arguments, _, expected, _), piped), (code, screen)) in
        ROWS.iter().zip(piped).zip(shown)
    {
        let foreign = foreign(&screen);
        if (piped, code) != (Some(*expected), Some(*expected)) || foreign.is_some() {
            wrong.push(format!(
                "zerohop {command} {arguments}: {piped:?} in a pipe, {code:?} on a terminal, {expected} is right; foreign: {foreign:?}: \
                 {screen:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn foreign_terminal_output_is_detected() {
    for fine in ["text\r\n", "\u{1b}[32m INFO\u{1b}[0m a\tb", "\r\u{1b}[Kbacked up 3", "\u{1b}[1;4mUsage"] {
        assert_eq!(foreign(fine), None, "{fine:?}");
    }
    for bad in
        ["\u{1b}[2J", "a\u{7}", "\u{1b}]0;title\u{7}", "\u{9b}K", "\u{1b}[", "thread 'main' panicked at"]
    {
        assert!(foreign(bad).is_some(), "{bad:?}");
    }
}
