//! A disk so small that it can be filled.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system in memory, until it is dropped.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one of this size at a folder, which is made. `None`: this user may not.
    ///
    /// # Panics
    /// It cannot be mounted by root.
    pub(crate) fn mount(folder: &Path, size: &str) -> Option<SmallDisk> {
        std::fs::create_dir_all(folder).unwrap();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(folder);
        let is_mounted = command.output().is_ok_and(|output| output.status.success());
        assert!(is_mounted || !rustix::process::geteuid().is_root(), "{command:?} has failed");
        is_mounted.then(|| SmallDisk(folder.to_owned()))
    }

    /// Takes all the room that is left.
    pub(crate) fn fill(&self) {
        let mut file = std::fs::File::create(self.ballast()).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    /// Takes room, or gives it back, until so much is free: now, not for long, where a node writes and compacts meanwhile.
    pub(crate) fn leave(&self, bytes: u64) {
        let mut file = std::fs::File::options().append(true).create(true).open(self.ballast()).unwrap();
        let length = file.metadata().unwrap().len();
        match self.free_bytes().checked_sub(bytes) {
            Some(more) => drop(std::io::copy(&mut std::io::repeat(0).take(more), &mut file)),
            None => file.set_len(length.saturating_sub(bytes - self.free_bytes())).unwrap(),
        }
    }

    fn free_bytes(&self) -> u64 {
        let disk = rustix::fs::statvfs(&self.0).unwrap();
        disk.f_bavail * disk.f_frsize
    }

    /// Gives it back.
    pub(crate) fn free(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast-of-a-test")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Whoever has files open there is gone by then, or holds on to it until it is.
        drop(Command::new("umount").arg("-l").arg(&self.0).output());
    }
}
