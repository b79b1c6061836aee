//! Child processes: pinned servers, pinned runs of the load, and commands. None outlives its
//! parent.
//!
//! ```text
//!   driver ──▶ bench-NAME --run …          pinned to the client's cores, dies with the driver
//!                 └─▶ bench-NAME --launch  pinned to the server's cores, dies with the run, and becomes the server
//! ```
//!
//! A server of another project cannot ask the system to end it with its parent. So the launcher of
//! this project does that, and then becomes the server under the same process id (exec).

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use crate::ServerOutput;
use rustix::process::{
    Pid, Signal, getppid, kill_process, set_parent_process_death_signal, setpriority_process, setsid,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::failure::Failure;
use crate::limits::POLL;

/// The output of the child, if it ended without error and in time.
pub fn output(command: &mut Command, limit: Duration) -> Result<String, Failure> {
    let (mut child, mut printed) = start(command)?;
    let deadline = now() + limit;
    let status = loop {
        match child.child.try_wait().map_err(Failure::while_doing("waiting for a child"))? {
            Some(status) => break status,
            None if now() >= deadline => return Err(Failure::TimedOut(limit)),
            None => pause(POLL),
        }
    };
    if status.success() { printed.stdout().map_err(keeping()) } else { Err(ended(status, &mut printed)?) }
}

/// A server that runs until this is dropped.
pub struct Server {
    child: OwnedChild,
    printed: ServerOutput,
    /// When it was started.
    pub started: Instant,
}

impl Server {
    /// Starts `program` on these cores through the launcher in `launcher`.
    pub fn start(
        launcher: &Path,
        cores: &[usize],
        program: &Path,
        arguments: &[String],
    ) -> Result<Server, Failure> {
        let mut command = Command::new(launcher);
        command.args(["--launch", "--parent", &std::process::id().to_string(), "--cores", &listed(cores)]);
        command.arg("--").arg(program).args(arguments);
        let started = now();
        let (child, printed) = start(&mut command)?;
        Ok(Server { child, printed, started })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.child.id()
    }

    /// Kills it, as a crash would.
    ///
    /// # Errors Those of the system.
    pub fn kill(&mut self) -> Result<(), Failure> {
        self.child.child.kill().map_err(Failure::while_doing("killing a server"))?;
        self.child.child.wait().map_err(Failure::while_doing("waiting for a killed server"))?;
        Ok(())
    }

    /// Stops it in order, and waits.
    ///
    /// # Errors It has not ended without error within the limit.
    pub fn end(&mut self, limit: Duration) -> Result<(), Failure> {
        kill_process(Pid::from_child(&self.child.child), Signal::TERM)
            .map_err(Failure::while_doing("asking a server to end"))?;
        let deadline = now() + limit;
        loop {
            match self.child.child.try_wait().map_err(Failure::while_doing("waiting for a server"))? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(ended(status, &mut self.printed)?),
                None if now() >= deadline => return Err(Failure::TimedOut(limit)),
                None => pause(END_POLL),
            }
        }
    }

    /// Its output so far.
    ///
    /// # Errors The output cannot be read.
    pub fn printed(&mut self) -> Result<String, Failure> {
        self.printed.stdout().map_err(keeping())
    }

    /// An error if it has ended, with the end of its output.
    pub fn check(&mut self) -> Result<(), Failure> {
        match self.child.child.try_wait().map_err(Failure::while_doing("looking for the server"))? {
            None => Ok(()),
            Some(status) => Err(ended(status, &mut self.printed)?),
        }
    }
}

/// Polling interval for the end of a server.
const END_POLL: Duration = Duration::from_millis(2);

/// The first of so many consecutive ports that are free at the moment.
///
/// # Errors There are none.
#[expect(clippy::disallowed_methods, reason = "the only way to find a free port is to take it")]
pub fn free_ports(count: u16) -> Result<u16, Failure> {
    let failed = || Failure::while_doing("looking for free ports");
    const TRIES: usize = 100;
    for _ in 0..TRIES {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed())?;
        let first = listener.local_addr().map_err(failed())?.port();
        let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if first.checked_add(count).is_some() && (1..count).all(|behind| is_free(first + behind)) {
            return Ok(first);
        }
    }
    Err(Failure::Usage(format!("no {count} free ports in a row on 127.0.0.1")))
}

/// The installed program of this name.
///
/// # Errors It is missing; the error says how to install it.
pub fn installed(name: &str, install: &str) -> Result<PathBuf, String> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .ok_or_else(|| format!("no {name} in PATH (run {install})"))
}

/// The program of this project that is built beside this one.
///
/// # Errors It is missing.
pub fn beside(own_program: &Path, name: &str) -> Result<PathBuf, String> {
    let program = own_program.with_file_name(name);
    let missing = format!("no {} (run cargo build --release -p {name})", program.display());
    if program.is_file() { Ok(program) } else { Err(missing) }
}

/// Ties this process to its parent, pins it to these cores, and becomes `command`. Returns only on
/// failure.
pub fn launch(parent: u32, cores: &[usize], command: &[String]) -> Result<(), Failure> {
    die_with(parent)?;
    pin(cores)?;
    let Some((program, arguments)) = command.split_first() else {
        return Err(Failure::Usage("--launch needs a program".into()));
    };
    let error = Command::new(program).args(arguments).exec();
    Err(Failure::while_doing(format!("starting {program}"))(error))
}

/// This process is killed when its parent ends, in whatever way.
pub fn die_with(parent: u32) -> Result<(), Failure> {
    let tying = || Failure::while_doing("tying itself to its parent");
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(tying())?;
    // The parent may have ended before that.
    if getppid().map(Pid::as_raw_nonzero).is_none_or(|now| now.get() as u32 != parent) {
        return Err(Failure::Usage("the parent has ended".into()));
    }
    Ok(())
}

/// The cores that this process may use.
///
/// # Errors Those of the system.
pub fn allowed_cores() -> Result<Vec<usize>, Failure> {
    let set = sched_getaffinity(None).map_err(Failure::while_doing("asking for the cores"))?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}

/// Pins this process and its future children to these cores.
///
/// # Errors There is no such core.
pub fn pin(cores: &[usize]) -> Result<(), Failure> {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    sched_setaffinity(None, &set).map_err(Failure::while_doing(format!("moving to cores {}", listed(cores))))
}

/// Cores in the form of the command line.
fn listed(cores: &[usize]) -> String {
    cores.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Sets the nice value of this process and its future children.
///
/// Where the kernel shares cores among sessions first (autogroups), a nice value only counts within
/// the session. So this process gets its own session, and that the nice value.
pub fn take_precedence(nice: i32) -> Result<(), Failure> {
    if nice == 0 {
        return Ok(());
    }
    let group = Path::new("/proc/self/autogroup");
    if group.exists() {
        // It fails if this process already leads a session, which is fine.
        let _ = setsid();
        write(group, &nice.to_string())?;
    }
    setpriority_process(None, nice).map_err(Failure::while_doing(format!("setting nice to {nice}")))
}

/// Writes a small file.
#[expect(clippy::disallowed_methods, reason = "a setting of the system or a report, no file of a store")]
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(Failure::io("writing", path))
}

/// The time.
#[expect(clippy::disallowed_methods, reason = "time-outs of children, and times to ready, are wall time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Waits so long.
#[expect(clippy::disallowed_methods, reason = "the thread that waits for a child has nothing else to do")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Killed, and waited for, when it goes out of scope.
struct OwnedChild {
    child: Child,
}

impl Drop for OwnedChild {
    fn drop(&mut self) {
        // Fails only if it has ended and was waited for; then its id may be reused and must not be
        // killed.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn start(command: &mut Command) -> Result<(OwnedChild, ServerOutput), Failure> {
    let printed = ServerOutput::of(command).map_err(keeping())?;
    let name = command.get_program().to_string_lossy().into_owned();
    let child = command.spawn().map_err(Failure::while_doing(format!("starting {name}")))?;
    Ok((OwnedChild { child }, printed))
}

fn ended(status: ExitStatus, printed: &mut ServerOutput) -> Result<Failure, Failure> {
    let stderr = printed.last_words().map_err(keeping())?;
    Ok(Failure::Child { status: status.to_string(), stderr })
}

fn keeping() -> impl FnOnce(std::io::Error) -> Failure {
    Failure::while_doing("keeping what a child prints")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn child_is_killed_at_its_time_limit() {
        let start = now();
        let result = output(&mut shell("exec sleep 60"), Duration::from_millis(100));
        assert!(matches!(result, Err(Failure::TimedOut(_))), "{result:?}");
        assert!(now() - start < Duration::from_secs(30));
    }

    #[test]
    fn failed_child_is_reported_with_its_stderr() {
        let result = output(&mut shell("echo fine; echo broken >&2; exit 3"), Duration::from_secs(30));
        let text = result.unwrap_err().to_string();
        assert!(text.contains('3') && text.contains("broken") && !text.contains("fine"), "{text}");
    }

    #[test]
    fn requested_exit_must_succeed() {
        let started = |script: &str| {
            let (child, printed) = start(&mut shell(script)).unwrap();
            let mut server = Server { child, printed, started: now() };
            while server.printed().unwrap().is_empty() {
                pause(POLL);
            }
            server
        };
        let limit = Duration::from_secs(30);
        let ready = "echo ready; while :; do sleep 0.01; done";
        started(&format!("trap 'exit 0' TERM; {ready}")).end(limit).unwrap();
        assert!(started(&format!("trap 'exit 3' TERM; {ready}")).end(limit).is_err());
        let deaf = started(&format!("trap '' TERM; {ready}")).end(Duration::from_millis(50));
        assert!(matches!(deaf, Err(Failure::TimedOut(_))), "{deaf:?}");
    }

    #[test]
    fn free_ports_are_consecutive() {
        let first = free_ports(3).unwrap();
        #[expect(clippy::disallowed_methods, reason = "the only way to see that a port is free")]
        let bound = [0, 1, 2].map(|behind| TcpListener::bind((Ipv4Addr::LOCALHOST, first + behind)).is_ok());
        assert_eq!(bound, [true; 3]);
    }

    #[test]
    fn owned_child_ends_with_its_owner() {
        let (kept, ..) = start(&mut shell("exec sleep 60")).unwrap();
        let folder = format!("/proc/{}", kept.child.id());
        assert!(Path::new(&folder).exists());
        drop(kept);
        assert!(!Path::new(&folder).exists());
    }
}
