//! The lock of a folder, and the process that has the folder open, as the lock file names it. A copy of the folder names the process of the
//! original, which no lock of the copy shows: it may be stopped, or cut off, and go on later.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::Mode;
use zerohop_system::predecessor::retry_until_released;
use zerohop_wire::escaped::shown_path;

use super::OpenDiskError;

/// The file at the top of the folder that the process locks. It is not a name of the disk.
pub const LOCK_FILE: &str = "lock";

/// Longer than any record.
const RECORD_BYTES_MAX: u64 = 256;

#[expect(clippy::disallowed_methods, reason = "this module is the home of files")]
pub(crate) fn lock(root: &Path) -> Result<File, OpenDiskError> {
    let path = root.join(LOCK_FILE);
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = file.map_err(|error| OpenDiskError::system(&path, "opening the lock", &error))?;
    // Another account that can open the file could lock it, and prevent a node from starting. Older versions made it readable.
    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o600))
        .map_err(|errno| OpenDiskError::system(&path, "closing the lock to others", &errno.into()))?;
    let is_locked = |error: &TryLockError| matches!(error, TryLockError::WouldBlock);
    match retry_until_released(&shown_path(root), is_locked, || file.try_lock()) {
        Ok(()) => {
            record_holder(&file);
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => Err(OpenDiskError::InUse { root: root.to_owned() }),
        Err(TryLockError::Error(error)) => Err(OpenDiskError::system(&path, "locking", &error)),
    }
}

/// Names this process in the lock file. Without the record, on a full disk for example, only the lock protects the folder.
fn record_holder(mut file: &File) {
    let Some(record) = record_of_this_process() else { return };
    let _ = file.write_all(record.as_bytes()).and_then(|()| file.set_len(record.len() as u64));
}

/// A process, by its number and its start in clock ticks since this start of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProcessName {
    pid: u32,
    started: u64,
    boot: String,
}

impl ProcessName {
    /// A running process; `None`: there is none of this number, or the system does not tell.
    fn find(pid: u32) -> Option<ProcessName> {
        let stat = read(Path::new(&format!("/proc/{pid}/stat")))?;
        // The name in parentheses may have spaces and parentheses.
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        // An ended process whose parent has not looked yet.
        if matches!(fields.next()?, "Z" | "X") {
            return None;
        }
        let started = fields.nth(18)?.parse().ok()?;
        let boot = read(Path::new("/proc/sys/kernel/random/boot_id"))?.trim().to_owned();
        Some(ProcessName { pid, started, boot })
    }

    fn encode(&self) -> String {
        format!("{} {} {}\n", self.pid, self.started, self.boot)
    }

    fn decode(text: &str) -> Option<ProcessName> {
        let mut words = text.split_ascii_whitespace();
        let (pid, started) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(ProcessName { pid, started, boot: words.next()?.to_owned() })
    }
}

/// The record of this process for a lock file.
fn record_of_this_process() -> Option<String> {
    ProcessName::find(std::process::id()).map(|name| name.encode())
}

/// The process that has the original of this folder open, if the folder is a copy that no process has open. `None` too if the system does
/// not tell, or if the original is on another machine.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the home of files")]
pub fn process_of_original(folder: &Path) -> Option<u32> {
    let mut file = File::open(folder.join(LOCK_FILE)).ok()?;
    // A process that has this very folder locks it.
    file.try_lock_shared().ok()?;
    let mut text = String::new();
    Read::by_ref(&mut file).take(RECORD_BYTES_MAX).read_to_string(&mut text).ok()?;
    let name = ProcessName::decode(&text)?;
    let is_running = name.pid != std::process::id() && ProcessName::find(name.pid).as_ref() == Some(&name);
    is_running.then_some(name.pid)
}

#[expect(clippy::disallowed_methods, reason = "the home of files")]
fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(4096).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests put files where they do not belong")]
mod tests {
    use super::*;
    use crate::FilesDisk;
    use std::process::{Command, Stdio};

    #[test]
    fn copy_names_the_running_process_of_the_original() {
        let folder = tempfile::tempdir().unwrap();
        let write = |text: String| std::fs::write(folder.path().join(LOCK_FILE), text).unwrap();
        assert_eq!(process_of_original(folder.path()), None, "there is no file");
        write("no record".to_owned());
        assert_eq!(process_of_original(folder.path()), None);
        let mut other = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let name = ProcessName::find(other.id()).unwrap();
        write(name.encode());
        assert_eq!(process_of_original(folder.path()), Some(other.id()));
        for not_it in [
            ProcessName { started: name.started + 1, ..name.clone() },
            ProcessName { boot: "another".to_owned(), ..name.clone() },
        ] {
            write(not_it.encode());
            assert_eq!(process_of_original(folder.path()), None, "{not_it:?}");
        }
        write(name.encode());
        drop(other.stdin.take());
        while ProcessName::find(name.pid).is_some() {
            std::thread::yield_now();
        }
        assert_eq!(process_of_original(folder.path()), None, "it has ended, and is not reaped yet");
        other.wait().unwrap();
    }

    #[test]
    fn opened_folder_names_this_process_and_is_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let disk = FilesDisk::open(folder.path()).unwrap();
        let text = std::fs::read_to_string(folder.path().join(LOCK_FILE)).unwrap();
        assert_eq!(Some(text), record_of_this_process());
        assert_eq!(process_of_original(folder.path()), None);
        drop(disk);
        assert_eq!(process_of_original(folder.path()), None);
    }
}
