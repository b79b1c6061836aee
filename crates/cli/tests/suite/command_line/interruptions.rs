//! Ctrl-C: the command says whether something may be written.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Signal, kill_process};

use crate::support::process::{RunningProcess, pause};
use crate::support::serving::{ServingProgram, code, stderr, stdout, zerohop};
use crate::support::{folder, wait_for};

/// A command that waits, with an open standard input.
struct RunningCommand(RunningProcess);

impl RunningCommand {
    fn start(cluster: &ServingProgram, arguments: &[&str]) -> RunningCommand {
        let program = zerohop(arguments);
        // A test that runs as a background job of a script ignores SIGINT, and its children would too.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT,HUP").arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("ZEROHOP_ENDPOINT", cluster.endpoint());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        RunningCommand(RunningProcess::start(&mut command))
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.0.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// Interrupts it once it handles the signal.
    fn interrupt(self) -> Output {
        self.end_with(Signal::INT)
    }

    /// Sends this signal once it handles SIGINT.
    fn end_with(mut self, signal: Signal) -> Output {
        let path = format!("/proc/{}/status", self.0.id());
        let handles = |status: &String| {
            let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
            u64::from_str_radix(mask, 16).unwrap() >> (Signal::INT.as_raw() - 1) & 1 == 1
        };
        wait_for("it handles SIGINT", || std::fs::read_to_string(&path).unwrap(), handles);
        kill_process(self.0.pid(), signal).unwrap();
        // It may be stopped.
        kill_process(self.0.pid(), Signal::CONT).unwrap();
        // At the end of its input it would go on.
        let input = self.0.stdin.take();
        let output = self.0.output();
        drop(input);
        output
    }
}

#[test]
fn interrupted_command_says_that_nothing_was_changed() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["blob", "put", "b", "/dev/null"]);
    for arguments in [
        &["kv", "wait", "absent", "--json"][..],
        &["kv", "wait", "absent"],
        &["kv", "insert", "k", "-"],
        &["blob", "extend", "b", "-"],
        &["blob", "extend", "b", "-", "--json"],
        &["txn"],
        &["txn", "--json"],
    ] {
        let mut waiting = RunningCommand::start(&cluster, arguments);
        if arguments[0] == "txn" {
            waiting.feed(b"insert k v\n");
        }
        let output = waiting.interrupt();
        let error = stderr(&output);
        assert_eq!((code(&output), error.as_str()), (130, "zerohop: interrupted; nothing was changed\n"));
        let json =
            "{\"done\":false,\"reason\":\"interrupted\",\"error\":\"interrupted; nothing was changed\"}\n";
        assert_eq!(stdout(&output), if arguments.contains(&"--json") { json } else { "" });
    }
    assert_eq!(code(&cluster.run(&["kv", "lookup", "k"])), 1, "it is written");
}

#[test]
fn interrupted_write_says_that_it_may_be_done() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["blob", "put", "b", "/dev/null"]);
    let arguments = ["blob", "write", "b", "-", "--at", "0", "--pieces", "--json"];
    let mut waiting = RunningCommand::start(&cluster, &arguments);
    waiting.feed(&vec![7; 5 << 20]);
    let size = || cluster.json(&["blob", "stat", "b"])["size"].as_u64().unwrap();
    wait_for("the first piece is written", size, |size| *size == 4 << 20);
    let output = waiting.interrupt();
    assert_eq!(code(&output), 130, "{output:?}");
    assert!(stderr(&output).contains("interrupted; the outcome of the write is unknown"), "{output:?}");
    assert!(stdout(&output).starts_with("{\"done\":null,\"reason\":\"interrupted\","), "{output:?}");
}

/// The names and sizes of the files in a folder.
fn files(folder: &Path) -> Vec<(String, u64)> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    // The file may be removed meanwhile.
    let sized =
        |entry: fs::DirEntry| Some((entry.file_name().into_string().unwrap(), entry.metadata().ok()?.len()));
    let mut files: Vec<(String, u64)> = entries.filter_map(sized).collect();
    files.sort();
    files
}

#[test]
fn interrupted_get_leaves_existing_file_and_no_part() {
    const BLOB_BYTES: u64 = 2 << 30;
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["blob", "put", "b", "/dev/null"]);
    // The chunks of zeros are not stored.
    cluster.ok(&["blob", "truncate", "b", &BLOB_BYTES.to_string()]);
    for (signal, existing) in
        [(Signal::INT, true), (Signal::TERM, false), (Signal::HUP, true), (Signal::INT, false)]
    {
        let folder = folder();
        let target = folder.path().join("copy");
        if existing {
            fs::write(&target, "earlier").unwrap();
        }
        let before = files(folder.path());
        let copying = RunningCommand::start(&cluster, &["blob", "get", "b", target.to_str().unwrap()]);
        wait_for(
            "bytes are copied",
            || files(folder.path()),
            |now| now.iter().any(|(_, size)| *size > 1 << 20),
        );
        pause(copying.0.pid());
        assert!(files(folder.path()).iter().all(|(_, size)| *size < BLOB_BYTES), "it is complete");
        let output = copying.end_with(signal);
        assert_eq!(
            (code(&output), stderr(&output).as_str()),
            (130, "zerohop: interrupted; nothing was changed\n"),
            "{signal:?}"
        );
        assert_eq!(files(folder.path()), before, "{signal:?}");
        assert!(!existing || fs::read(&target).unwrap() == b"earlier", "{signal:?}");
    }
    // The part that is on standard output is named.
    let mut copying = RunningCommand::start(&cluster, &["blob", "get", "b", "-"]);
    let mut first = [0];
    copying.0.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    let output = copying.interrupt();
    let words =
        "zerohop: interrupted; nothing was changed in the cluster, and the output may not be complete\n";
    assert_eq!((code(&output), stderr(&output).as_str()), (130, words));
}

#[test]
fn get_replaces_files_with_their_permissions_and_writes_devices() {
    let cluster = ServingProgram::in_memory();
    let folder = folder();
    let path = |name: &str| folder.path().join(name).into_os_string().into_string().unwrap();
    fs::write(path("source"), "contents").unwrap();
    cluster.ok(&["blob", "put", "b", &path("source")]);
    let mode = |name: &str| fs::metadata(path(name)).unwrap().permissions().mode() & 0o777;
    let get = |name: &str| cluster.ok(&["blob", "get", "b", &path(name)]);

    get("new");
    assert_eq!((mode("new"), fs::read(path("new")).unwrap()), (0o600, b"contents".to_vec()));
    fs::write(path("old"), "earlier and longer").unwrap();
    fs::set_permissions(path("old"), fs::Permissions::from_mode(0o640)).unwrap();
    get("old");
    assert_eq!((mode("old"), fs::read(path("old")).unwrap()), (0o640, b"contents".to_vec()));
    // A link stays, also if nothing is behind it.
    for (link, file) in [("link", "old"), ("dangling", "behind")] {
        std::os::unix::fs::symlink(file, path(link)).unwrap();
        get(link);
        assert_eq!(fs::read_link(path(link)).unwrap(), Path::new(file));
        assert_eq!(fs::read(path(file)).unwrap(), b"contents");
    }
    for device in ["/dev/null", "/dev/stdout"] {
        let printed = cluster.ok(&["blob", "get", "b", device]);
        assert_eq!(printed, if device == "/dev/stdout" { "contents" } else { "" });
    }
    // A missing blob, and a failure in the middle, change nothing.
    let before = files(folder.path());
    assert_eq!(code(&cluster.run(&["blob", "get", "absent", &path("old")])), 1);
    cluster.ok(&["blob", "truncate", "b", "1073741824"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 1024; exec \"$0\" \"$@\""]);
    let program = zerohop(&["blob", "get", "b", &path("old")]);
    limited.arg(program.get_program()).args(program.get_args());
    limited.env("ZEROHOP_ENDPOINT", cluster.endpoint()).env("ZEROHOP_SECRET_FILE", "");
    let ended = crate::support::serving::output(limited, b"");
    assert!(code(&ended) == 3 && stderr(&ended).contains("old: writing failed: "), "{ended:?}");
    assert_eq!(files(folder.path()), before);
}
