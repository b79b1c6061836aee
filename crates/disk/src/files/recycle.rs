//! Files that get another name and new contents, without a change of the space that they occupy.

use rustix::fs::{OFlags, renameat};
use rustix::io::Errno;
use zerohop_engine::disk::path::split;
use zerohop_engine::disk::{DiskError, DiskResult, FileId};

use super::super::open_files::failed;
use super::{FilesDisk, check_name, not_found, refused};

impl FilesDisk {
    /// Gives a file another name, under which it is empty: the tracked length is 0, and the length on the device stays.
    pub(super) fn recycle(&mut self, from: &str, path: &str) -> DiskResult<FileId> {
        check_name(from, "open")?;
        match self.is_folder(from) {
            Ok(false) => {}
            Ok(true) | Err(Errno::NOENT | Errno::NOTDIR) => return Err(not_found(from)),
            Err(errno) => return Err(failed(from, "open", errno)),
        }
        if self.is_folder(path).is_ok() {
            return Err(DiskError::AlreadyExists { path: path.to_owned() });
        }
        if let Some(old) = self.files.open_known(from) {
            // A thread that writes zeros would write over new contents. A failed sync is a failure of the file, whatever its name.
            let ready = self.wait_for_zeros(old, u64::MAX, "open");
            let failure = self.files.peek(old, "open").ok().and_then(|file| file.failure.clone());
            self.files.close(old);
            ready.and(failure.map_or(Ok(()), Err))?;
        }
        self.make_folder_of(path)?;
        let root = self.files.root();
        renameat(root, from, root, path).map_err(|errno| refused(path, "open", errno))?;
        self.files.removed(from);
        let id = self.files.open_new(path, OFlags::empty()).map_err(|errno| refused(path, "open", errno))?;
        let (_, file) = self.files.get(id, "open")?;
        file.zeroed_bytes = file.bytes;
        file.bytes = 0;
        Ok(id)
    }

    /// Creates the folder of a path, if there is none.
    fn make_folder_of(&mut self, path: &str) -> DiskResult<()> {
        let folder = split(path).0;
        if folder.is_empty() || self.is_folder(folder) == Ok(true) {
            Ok(())
        } else {
            self.make_folder(folder)
        }
    }
}
