//! Programs on a pseudo-terminal.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::GIVE_UP_AFTER;
use super::process::RunningProcess;
use super::serving::{ServingProgram, zerohop};

/// How long a slowed program runs, at least, before it is stopped for a multiple of that time, in
/// turns.
const RUNS: Duration = Duration::from_millis(4);
const STANDS: u32 = 38;

/// The program, with this cluster as its endpoint.
fn against(cluster: &ServingProgram, arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = zerohop(arguments);
    command.env("ZEROHOP_ENDPOINT", cluster.endpoint());
    command
}

/// The two ends of a pseudo-terminal.
pub(crate) struct PseudoTerminal {
    /// What is written here is typed; what is read here was printed.
    pub(crate) controller: File,
    pub(crate) terminal: File,
    /// Where other processes open the terminal.
    pub(crate) path: PathBuf,
}

impl PseudoTerminal {
    pub(crate) fn open() -> PseudoTerminal {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let path = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
        let terminal = File::options().read(true).write(true).open(&path).unwrap();
        PseudoTerminal { controller: File::from(controller), terminal, path }
    }
}

/// A program with a terminal.
pub(crate) struct TerminalProgram {
    child: RunningProcess,
    started: Instant,
    output: Arc<Mutex<Vec<u8>>>,
    reader: std::thread::JoinHandle<()>,
    keys: File,
}

impl TerminalProgram {
    /// Its standard error is the terminal, and its standard output a pipe.
    pub(crate) fn start(cluster: &ServingProgram, arguments: &[&str]) -> TerminalProgram {
        TerminalProgram::with(against(cluster, arguments), |command, terminal| {
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(terminal);
        })
    }

    /// Standard input, standard output and standard error are the terminal.
    pub(crate) fn on_all_streams(
        cluster: &ServingProgram,
        arguments: &[impl AsRef<OsStr>],
    ) -> TerminalProgram {
        TerminalProgram::all_of(against(cluster, arguments))
    }

    /// Runs a prepared command, with the terminal as all three streams.
    pub(crate) fn all_of(command: Command) -> TerminalProgram {
        TerminalProgram::with(command, |command, terminal| {
            let copy = || terminal.try_clone().unwrap();
            command.stdin(copy()).stdout(copy()).stderr(copy());
        })
    }

    /// The same on a terminal of this many rows and columns.
    pub(crate) fn with_size(command: Command, (rows, columns): (u16, u16)) -> TerminalProgram {
        TerminalProgram::with(command, |command, terminal| {
            let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
            tcsetwinsize(&terminal, size).unwrap();
            let copy = || terminal.try_clone().unwrap();
            command.stdin(copy()).stdout(copy()).stderr(copy());
        })
    }

    fn with(mut command: Command, connect: impl FnOnce(&mut Command, File)) -> TerminalProgram {
        let PseudoTerminal { controller, terminal, .. } = PseudoTerminal::open();
        connect(&mut command, terminal);
        let started = Instant::now();
        let child = RunningProcess::start(&mut command);
        // This end is closed too, so that the terminal ends with the program.
        drop(command);
        let keys = controller.try_clone().unwrap();
        let output = Arc::new(Mutex::new(Vec::new()));
        let reader = std::thread::spawn({
            let output = Arc::clone(&output);
            move || {
                let (mut controller, mut some) = (controller, [0; 4096]);
                // The end of a terminal is an error.
                while let Ok(length @ 1..) = controller.read(&mut some) {
                    output.lock().unwrap().extend_from_slice(&some[..length]);
                }
            }
        });
        TerminalProgram { child, started, output, reader, keys }
    }

    pub(crate) fn output(&self) -> String {
        String::from_utf8(self.output.lock().unwrap().clone()).unwrap()
    }

    /// Types something.
    pub(crate) fn types(&mut self, text: &str) {
        self.keys.write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.child.pid(), signal).unwrap();
    }

    /// Slows it down until it has printed all of these texts.
    pub(crate) fn slow_until(&mut self, texts: &[&str]) {
        let mut went_on = self.started;
        while self.child.try_wait().unwrap().is_none() {
            let output = self.output();
            if texts.iter().all(|text| output.contains(text)) {
                return;
            }
            assert!(self.started.elapsed() < GIVE_UP_AFTER, "it tells nothing, and does not end: {output:?}");
            self.signal(Signal::STOP);
            std::thread::sleep(went_on.elapsed() * STANDS);
            went_on = Instant::now();
            self.signal(Signal::CONT);
            std::thread::sleep(RUNS);
        }
    }

    /// Waits for its end; returns what the terminal showed, the time it took, and the rest.
    pub(crate) fn end(mut self) -> (String, Duration, Output) {
        let status = self.child.ended();
        let took = self.started.elapsed();
        self.reader.join().unwrap();
        let mut output = Output { status, stdout: Vec::new(), stderr: Vec::new() };
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_end(&mut output.stdout).unwrap();
        }
        (String::from_utf8(self.output.lock().unwrap().clone()).unwrap(), took, output)
    }
}
