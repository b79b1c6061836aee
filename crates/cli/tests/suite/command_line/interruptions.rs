//! Ctrl-C: the command says whether something may be written.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use rustix::process::{Signal, kill_process};

use crate::support::process::RunningProcess;
use crate::support::serving::{ServingProgram, code, stderr, stdout, zerohop};
use crate::support::wait_for;

/// A command that waits, with an open standard input.
struct RunningCommand(RunningProcess);

impl RunningCommand {
    fn start(cluster: &ServingProgram, arguments: &[&str]) -> RunningCommand {
        let program = zerohop(arguments);
        // A test that runs as a background job of a script ignores SIGINT, and its children would too.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT").arg(program.get_program()).args(program.get_args());
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
    fn interrupt(mut self) -> Output {
        let path = format!("/proc/{}/status", self.0.id());
        let handles = |status: &String| {
            let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
            u64::from_str_radix(mask, 16).unwrap() >> (Signal::INT.as_raw() - 1) & 1 == 1
        };
        wait_for("it handles SIGINT", || std::fs::read_to_string(&path).unwrap(), handles);
        kill_process(self.0.pid(), Signal::INT).unwrap();
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
        &["blob", "append", "b", "-"],
        &["blob", "append", "b", "-", "--json"],
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
    assert!(stderr(&output).contains("interrupted; the write may or may not be done"), "{output:?}");
    assert!(stdout(&output).starts_with("{\"done\":null,\"reason\":\"interrupted\","), "{output:?}");
}
