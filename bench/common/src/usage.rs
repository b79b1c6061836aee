//! The resource usage of a process: CPU time, time it waited for a CPU, resident memory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

use crate::failure::Failure;

/// Sums over all threads of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Time it ran, in user or system mode.
    pub ran: Duration,
    /// Time it was runnable while other work had the core.
    pub waited: Duration,
}

impl Cpu {
    /// Since the start of the live threads. Threads that have ended no longer count, so a
    /// difference of two readings misses them; servers keep their threads.
    ///
    /// From `schedstat`, which counts nanoseconds, while `stat` counts hundredths of a second.
    pub fn of(pid: u32) -> Result<Cpu, Failure> {
        let tasks = PathBuf::from(format!("/proc/{pid}/task"));
        let reading = || Failure::io("reading the processor time of", &tasks);
        let mut sum = Cpu::default();
        for task in std::fs::read_dir(&tasks).map_err(reading())? {
            let path = task.map_err(reading())?.path().join("schedstat");
            match std::fs::read_to_string(&path) {
                Ok(line) => {
                    let mut numbers = line.split_whitespace().map_while(|number| number.parse().ok());
                    sum.ran += Duration::from_nanos(numbers.next().unwrap_or(0));
                    sum.waited += Duration::from_nanos(numbers.next().unwrap_or(0));
                }
                // The thread has ended meanwhile.
                Err(_) if !path.exists() => {}
                Err(error) => return Err(Failure::io("reading", &path)(error)),
            }
        }
        Ok(sum)
    }

    /// That of a process and of its children: a server that has a process for each connection. Children that have ended and were waited for count
    /// with the time that they ran, in hundredths of a second.
    pub fn of_family(pid: u32) -> Result<Cpu, Failure> {
        let mut sum = Cpu::of(pid)?;
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let children = folder.join(format!("task/{pid}/children"));
        let listed = std::fs::read_to_string(&children).map_err(Failure::io("reading", &children))?;
        for child in listed.split_whitespace().filter_map(|child| child.parse().ok()) {
            match Cpu::of(child) {
                Ok(cpu) => (sum.ran, sum.waited) = (sum.ran + cpu.ran, sum.waited + cpu.waited),
                // The child has ended meanwhile.
                Err(_) if !Path::new("/proc").join(child.to_string()).exists() => {}
                Err(error) => return Err(error),
            }
        }
        let path = folder.join("stat");
        let stat = std::fs::read_to_string(&path).map_err(Failure::io("reading", &path))?;
        let ticks = ticks_of_ended_children(&stat);
        let ticks = ticks.ok_or_else(|| Failure::Usage(format!("{} has another form", path.display())))?;
        sum.ran += Duration::from_millis(ticks * 1000 / clock_ticks_per_second());
        Ok(sum)
    }

    /// The usage since an earlier reading.
    pub fn since(self, before: Cpu) -> Cpu {
        Cpu { ran: self.ran.saturating_sub(before.ran), waited: self.waited.saturating_sub(before.waited) }
    }
}

/// `cutime` and `cstime` of `/proc/PID/stat`, behind the program's name in brackets.
fn ticks_of_ended_children(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(13);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// CPU time of this process, with all its threads.
pub fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Resident bytes of a process.
pub fn resident_bytes(pid: u32) -> Result<u64, Failure> {
    let path = PathBuf::from(format!("/proc/{pid}/status"));
    let status = std::fs::read_to_string(&path).map_err(Failure::io("reading", &path))?;
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok());
    kib.map(|kib: u64| kib << 10).ok_or_else(|| Failure::Usage(format!("{} has no VmRSS", path.display())))
}

/// Bytes of a file.
pub fn file_bytes(path: &Path) -> Result<u64, Failure> {
    Ok(path.metadata().map_err(Failure::io("looking at", path))?.len())
}

/// Bytes of a program's file that are loaded to run it, without debug information. From the segment
/// table of a 64-bit ELF file.
pub fn loaded_bytes(path: &Path) -> Result<u64, Failure> {
    #[expect(clippy::disallowed_methods, reason = "a program that is measured, no file of a store")]
    let bytes = std::fs::read(path).map_err(Failure::io("reading", path))?;
    loaded(&bytes).ok_or_else(|| Failure::Usage(format!("{} is no 64-bit ELF file", path.display())))
}

fn loaded(elf: &[u8]) -> Option<u64> {
    const LOAD: u32 = 1;
    let half = |at: usize| Some(u16::from_le_bytes(*elf.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u32::from_le_bytes(*elf.get(at..)?.first_chunk()?));
    let long = |at: usize| Some(u64::from_le_bytes(*elf.get(at..)?.first_chunk()?));
    // 64 bits, little-endian.
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, entry_bytes, count) = (long(32)? as usize, half(54)? as usize, half(56)? as usize);
    let mut sum = 0;
    for at in (0..count).map(|entry| table + entry * entry_bytes) {
        if word(at)? == LOAD {
            sum += long(at + 32)?;
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{now, pause};
    use rustix::process::{Pid, Signal};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command};

    #[test]
    fn processor_time_grows_with_work_of_process() {
        let start = |script: &str| Command::new("sh").args(["-c", script]).spawn().unwrap();
        let (mut busy, mut idle) = (start("while :; do :; done"), start("exec sleep 60"));
        let deadline = now() + Duration::from_secs(30);
        let ran = |child: &Child| Cpu::of(child.id()).unwrap().ran;
        while ran(&busy) < Duration::from_millis(100) && now() < deadline {
            pause(Duration::from_millis(10));
        }
        let (busy_ran, idle_ran) = (ran(&busy), ran(&idle));
        for child in [&mut busy, &mut idle] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(
            busy_ran >= Duration::from_millis(100) && idle_ran < busy_ran / 2,
            "{busy_ran:?} {idle_ran:?}"
        );
    }

    #[test]
    fn processor_time_of_family_counts_living_and_ended_children() {
        let deadline = now() + Duration::from_secs(30);
        let busy = "while :; do :; done";
        let ended = format!("timeout 0.3 sh -c '{busy}'; exec sleep 60");
        for script in [format!("({busy}) & exec sleep 60"), ended] {
            let mut parent = Command::new("sh").args(["-c", &script]).process_group(0).spawn().unwrap();
            let limit = Duration::from_millis(100);
            let family = || Cpu::of_family(parent.id()).unwrap().ran;
            while family() < limit && now() < deadline {
                pause(Duration::from_millis(10));
            }
            let (family, alone) = (family(), Cpu::of(parent.id()).unwrap().ran);
            rustix::process::kill_process_group(Pid::from_child(&parent), Signal::KILL).unwrap();
            parent.wait().unwrap();
            assert!(family >= limit && alone < family / 2, "{script}: {family:?} {alone:?}");
        }
    }

    #[test]
    fn ended_children_are_found_behind_any_program_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4 1 2 3 4 5 6 70 8 20 0";
        assert_eq!(ticks_of_ended_children(stat), Some(78));
        assert_eq!(ticks_of_ended_children("7 (a) S 1"), None);
    }

    #[test]
    fn memory_shows_as_resident() {
        let before = resident_bytes(std::process::id()).unwrap();
        let block = vec![1u8; 64 << 20];
        let after = resident_bytes(std::process::id()).unwrap();
        assert!(after - before > 32 << 20, "{before} {after} {}", block[before as usize % block.len()]);
    }

    #[test]
    fn loaded_bytes_exclude_debug_sections() {
        let own = std::env::current_exe().unwrap();
        let (all, loaded) = (file_bytes(&own).unwrap(), loaded_bytes(&own).unwrap());
        assert!(loaded > 1 << 20 && loaded < all, "{loaded} of {all}");
        assert_eq!(super::loaded(b"#!/bin/sh"), None);
        assert_eq!(super::loaded(b"\x7fELF\x02\x01 cut off"), None);
    }
}
