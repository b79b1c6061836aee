//! A disk that is small enough to be filled.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system in memory, mounted until it is dropped.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts a file system of this size on a folder, which is created. `None`: this user may not.
    ///
    /// # Panics The mount fails for root.
    pub(crate) fn mount(folder: &Path, size: &str) -> Option<SmallDisk> {
        std::fs::create_dir_all(folder).unwrap();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(folder);
        let is_mounted = command.output().is_ok_and(|output| output.status.success());
        assert!(is_mounted || !rustix::process::geteuid().is_root(), "{command:?} has failed");
        is_mounted.then(|| SmallDisk(folder.to_owned()))
    }

    /// Fills all free space.
    pub(crate) fn fill_disk(&self) {
        let mut file = std::fs::File::create(self.ballast()).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    /// Allocates or frees space until this much is free; it is not kept so while a node writes and
    /// compacts.
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

    /// Frees the space again.
    pub(crate) fn free(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast-of-a-test")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A lazy unmount succeeds even if a process still has files open there.
        drop(Command::new("umount").arg("-l").arg(&self.0).output());
    }
}
