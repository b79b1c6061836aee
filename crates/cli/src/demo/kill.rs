//! Starting the child, listening to it, and killing it.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};

use zerohop_node::clock::Stopwatch;
use zerohop_node::disk::{HOLD_UNSYNCED, TEST_DISK_VARIABLE};

use super::child::Line;
use super::error::DemoError;
use super::limits::{CHILD_LINE_BYTES_MAX, CHILD_LINES_MAX, CHILD_SILENCE_MAX, CHILD_TIME_MAX};
use super::load::Stored;
use super::progress::Progress;

/// SIGKILL on every Unix.
const SIGKILL: i32 = 9;

/// What is known of the child when it is dead.
#[derive(Debug, Default)]
pub(super) struct Killed {
    /// Files it had acknowledged, sorted by path.
    pub(super) acknowledged: Vec<Stored>,
    /// Whether it was SIGKILL that ended it.
    pub(super) by_sigkill: bool,
}

/// Runs a child that stores the files of `dir`, and kills it once it has acknowledged `kill_after` of them, or all.
pub(super) fn run_and_kill(
    dir: &Path,
    work: &Path,
    kill_after: u64,
    progress: &Progress,
) -> Result<Killed, DemoError> {
    let program = std::env::current_exe()
        .map_err(|error| DemoError::system("finding the own program", Path::new("zerohop"), &error))?;
    let child = Command::new(&program)
        .arg("demo-child")
        .args([dir, work])
        .env(TEST_DISK_VARIABLE, HOLD_UNSYNCED)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| DemoError::system("starting the child process", &program, &error))?;
    let mut child = EndsChild(child);
    let Some(output) = child.0.stdout.take() else {
        return Err(DemoError::Child { reason: "it has no output".to_owned() });
    };
    std::thread::scope(|scope| {
        // Ends with the child, whose end closes the pipe; and `child` is ended before this scope waits for it.
        let mut child = child;
        let (lines, heard) = sync_channel(CHILD_LINES_MAX);
        scope.spawn(move || read_lines(output, &lines));
        let mut killed = listen(&mut child, &heard, kill_after, progress)?;
        let status =
            child.0.wait().map_err(|error| DemoError::system("waiting for the child", &program, &error))?;
        killed.by_sigkill = status.signal() == Some(SIGKILL);
        killed.acknowledged.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(killed)
    })
}

/// A child that is killed and waited for, whatever happens here.
struct EndsChild(Child);

impl Drop for EndsChild {
    fn drop(&mut self) {
        // Both fail only if it has ended and was waited for already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Listens until the child is dead. What it had said before counts, also if it is heard after the kill.
fn listen(
    child: &mut EndsChild,
    heard: &Receiver<Result<Line, String>>,
    kill_after: u64,
    progress: &Progress,
) -> Result<Killed, DemoError> {
    let stopwatch = Stopwatch::start();
    let mut killed = Killed::default();
    let mut is_killed = false;
    loop {
        let line = match heard.recv_timeout(CHILD_SILENCE_MAX) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) if is_killed => return Ok(killed),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(DemoError::Child { reason: "it ended by itself".to_owned() });
            }
            Err(RecvTimeoutError::Timeout) => {
                return Err(DemoError::ChildStuck { waited: CHILD_SILENCE_MAX });
            }
        };
        let is_all = match line {
            Ok(Line::Stored(file)) => {
                progress.add(1, file.bytes);
                killed.acknowledged.push(file);
                false
            }
            Ok(Line::Alive) => false,
            Ok(Line::All) => true,
            Ok(Line::Failed(reason)) | Err(reason) => return Err(DemoError::Child { reason }),
        };
        if stopwatch.elapsed() > CHILD_TIME_MAX {
            return Err(DemoError::ChildStuck { waited: CHILD_TIME_MAX });
        }
        if !is_killed && (is_all || killed.acknowledged.len() as u64 >= kill_after) {
            is_killed = true;
            child.0.kill().map_err(|error| DemoError::Child { reason: error.to_string() })?;
        }
    }
}

/// Passes on the child's lines until its output ends. A last line without a line feed was cut by the kill.
fn read_lines(output: ChildStdout, lines: &SyncSender<Result<Line, String>>) {
    let mut output = BufReader::new(output);
    let mut line = String::new();
    loop {
        line.clear();
        let read = (&mut output).take(CHILD_LINE_BYTES_MAX).read_line(&mut line);
        let said = match (read, line.strip_suffix('\n')) {
            (Ok(0), _) => return,
            (Ok(_), Some(whole)) => Line::decode(whole).ok_or_else(|| format!("it said {whole:?}")),
            (Ok(_), None) if (line.len() as u64) < CHILD_LINE_BYTES_MAX => return,
            (Ok(_), None) => Err("it said a line without end".to_owned()),
            (Err(error), _) => Err(error.to_string()),
        };
        if lines.send(said).is_err() {
            return;
        }
    }
}
