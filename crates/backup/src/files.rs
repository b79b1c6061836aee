//! The files of a backup.
#![expect(clippy::disallowed_methods, reason = "a backup is files of the user's, not of the store")]

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crc_fast::{CrcAlgorithm, Digest};
use zerohop_wire::escaped::shown_path;

use crate::error::BackupError;
use crate::format::FormatError;
use crate::format::manifest::{MANIFEST_BYTES_MAX, Manifest, Part};
use crate::format::part::{CHUNK_BITS_MAX, FRAME_BYTES, HEADER_BYTES, PartEntry, PartHeader};

const MANIFEST: &str = "manifest.zhb";
const MANIFEST_NEW: &str = "manifest.new";
/// Present in a folder until its manifest is written.
const UNFINISHED: &str = "unfinished";
const BUFFER_BYTES: usize = 1 << 20;
const OTHER_LENGTH: &str = "it has another length than the manifest says";

/// Options for files of a backup: they have all data, so that only this account may read them,
/// whatever its umask.
fn private() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// A folder in which a backup is created. If it is dropped before it is finished, its files are
/// removed.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// This process has created the folder.
    is_new: bool,
    is_finished: bool,
}

impl Folder {
    /// Opens a folder that is new, empty, or has the remains of an unfinished backup.
    pub(crate) fn begin(path: &Path) -> Result<Folder, BackupError> {
        let is_new = match fs::DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
            Err(error) => return Err(BackupError::file("making the folder", path, &error)),
        };
        let mut folder = Folder { path: path.to_owned(), is_new, is_finished: true };
        if !is_new {
            folder.clear_leftovers()?;
        }
        let mark = path.join(UNFINISHED);
        let text = "a backup is being written here, or was and did not get to its end\n";
        folder.is_finished = false;
        // The folder is empty, and a file or link that another process makes meanwhile is not followed.
        let marked = private().create_new(true).open(&mark);
        marked
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| BackupError::file("writing", &mark, &error))?;
        Ok(folder)
    }

    fn clear_leftovers(&self) -> Result<(), BackupError> {
        let path = &self.path;
        let names = names_in(path)?;
        let is_left = names.iter().any(|name| name == UNFINISHED) && names.iter().all(|name| is_ours(name));
        if names.iter().any(|name| name == MANIFEST) || !names.is_empty() && !is_left {
            return Err(BackupError::Refused(format!(
                "{}: the folder is not empty: name a new one for each backup",
                shown_path(path)
            )));
        }
        for name in names {
            let file = path.join(name);
            fs::remove_file(&file).map_err(|error| BackupError::file("removing", &file, &error))?;
        }
        Ok(())
    }

    pub(crate) fn part(&self, backup: [u8; 16], keyspace: u32, partition: u32) -> PartWriter {
        let part = Part { keyspace, partition, ..Part::default() };
        PartWriter {
            path: self.path.join(part.file_name()),
            header: PartHeader { backup, keyspace, partition },
            part,
            entries: 0,
            digest: Digest::new(CrcAlgorithm::Crc32Iscsi),
            file: None,
            buffer: Vec::new(),
        }
    }

    /// Writes the manifest, when all parts are on the disk: from now on it is a backup.
    pub(crate) fn finish(mut self, manifest: &Manifest) -> Result<(), BackupError> {
        let (new, path) = (self.path.join(MANIFEST_NEW), self.path.join(MANIFEST));
        let failed = |error: std::io::Error| BackupError::file("writing", &path, &error);
        let mut file = private().create_new(true).open(&new).map_err(failed)?;
        file.write_all(&manifest.encode()).and_then(|()| file.sync_all()).map_err(failed)?;
        sync_folder(&self.path)?;
        fs::rename(&new, &path).map_err(failed)?;
        self.is_finished = true;
        sync_folder(&self.path)?;
        let mark = self.path.join(UNFINISHED);
        fs::remove_file(&mark).map_err(|error| BackupError::file("removing", &mark, &error))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        // Files that cannot be removed stay beside the `unfinished` mark, and are not a backup.
        for name in names_in(&self.path).unwrap_or_default() {
            if is_ours(&name) && name != UNFINISHED {
                drop(fs::remove_file(self.path.join(name)));
            }
        }
        drop(fs::remove_file(self.path.join(UNFINISHED)));
        if self.is_new {
            drop(fs::remove_dir(&self.path));
        }
    }
}

fn is_ours(name: &str) -> bool {
    name == UNFINISHED || name == MANIFEST_NEW || name.ends_with(".part")
}

fn names_in(path: &Path) -> Result<Vec<String>, BackupError> {
    let failed = |error: std::io::Error| BackupError::file("reading the folder", path, &error);
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

fn sync_folder(path: &Path) -> Result<(), BackupError> {
    let synced = File::open(path).and_then(|folder| folder.sync_all());
    synced.map_err(|error| BackupError::file("syncing the folder", path, &error))
}

/// Reads the manifest of a folder.
pub(crate) fn manifest_of(folder: &Path) -> Result<Manifest, BackupError> {
    let path = folder.join(MANIFEST);
    let Some((file, length)) = open_file(&path)? else {
        if matches!(fs::metadata(folder), Err(error) if error.kind() == ErrorKind::NotFound) {
            return Err(BackupError::Absent(folder.to_owned()));
        }
        let what = match folder.join(UNFINISHED).exists() {
            true => "the backup in it was never finished",
            false => "there is no backup in it",
        };
        return Err(BackupError::damaged(folder, what));
    };
    if length > MANIFEST_BYTES_MAX {
        return Err(BackupError::damaged(&path, "it is longer than any manifest may be"));
    }
    let mut bytes = Vec::new();
    let read = file.take(length).read_to_end(&mut bytes);
    read.map_err(|error| BackupError::file("reading", &path, &error))?;
    Manifest::decode(&bytes).map_err(|FormatError(what)| BackupError::damaged(&path, what))
}

/// Opens a file of a backup, which must be a regular file in its folder: a link could have any file read. Returns its length,
/// or `None` if there is no such file.
fn open_file(path: &Path) -> Result<Option<(File, u64)>, BackupError> {
    let failed = |error: std::io::Error| BackupError::file("opening", path, &error);
    let named = match fs::symlink_metadata(path) {
        Ok(named) => named,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if named.is_symlink() {
        return Err(BackupError::damaged(
            path,
            "it is a symbolic link, which is not followed: the files of a backup are in its folder",
        ));
    }
    if !named.is_file() {
        return Err(BackupError::damaged(path, "it is no file"));
    }
    let file = File::open(path).map_err(failed)?;
    let opened = file.metadata().map_err(failed)?;
    if (opened.dev(), opened.ino()) != (named.dev(), named.ino()) {
        return Err(BackupError::damaged(path, "another file took its place meanwhile"));
    }
    Ok(Some((file, opened.len())))
}

/// A writer of a part. It creates the file with the first entry.
pub(crate) struct PartWriter {
    /// Empty for a writer that writes nothing.
    path: PathBuf,
    header: PartHeader,
    part: Part,
    entries: u64,
    digest: Digest,
    file: Option<BufWriter<File>>,
    buffer: Vec<u8>,
}

impl PartWriter {
    /// A writer that discards its entries.
    pub(crate) fn discarding() -> PartWriter {
        PartWriter {
            path: PathBuf::new(),
            header: PartHeader { backup: [0; 16], keyspace: 0, partition: 0 },
            part: Part::default(),
            entries: 0,
            digest: Digest::new(CrcAlgorithm::Crc32Iscsi),
            file: None,
            buffer: Vec::new(),
        }
    }

    pub(crate) fn put(&mut self, entry: &PartEntry<'_>) -> Result<(), BackupError> {
        if self.path.as_os_str().is_empty() {
            return Ok(());
        }
        if self.file.is_none() {
            let file = private().create_new(true).open(&self.path);
            let file = file.map_err(|error| BackupError::file("making", &self.path, &error))?;
            self.file = Some(BufWriter::with_capacity(BUFFER_BYTES, file));
            let header = self.header.encode();
            self.write(&header)?;
        }
        match entry {
            PartEntry::Bytes { .. } | PartEntry::List { .. } | PartEntry::Blob { .. } => {
                self.part.records += 1
            }
            PartEntry::Kept { .. } => {
                self.part.records += 1;
                self.part.kept += 1;
            }
            _ => {}
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        entry.encode(&mut buffer);
        self.entries += 1;
        let written = self.write(&buffer);
        self.buffer = buffer;
        written
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        self.digest.update(bytes);
        self.part.length += bytes.len() as u64;
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(bytes).map_err(|error| BackupError::file("writing", &self.path, &error))
    }

    /// Syncs the part to the disk; `None` if there was nothing to write.
    pub(crate) fn finish(mut self) -> Result<Option<Part>, BackupError> {
        if self.file.is_none() {
            return Ok(None);
        }
        let entries = self.entries;
        self.put(&PartEntry::End { entries })?;
        self.part.checksum = self.digest.finalize() as u32;
        if let Some(file) = self.file.take() {
            let failed = |error: std::io::Error| BackupError::file("writing", &self.path, &error);
            let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
            file.sync_all().map_err(failed)?;
        }
        Ok(Some(self.part))
    }
}

/// A reader of a part, entry by entry.
pub(crate) struct PartReader {
    path: PathBuf,
    file: BufReader<File>,
    part: Part,
    digest: Digest,
    length: u64,
    entries: u64,
    /// log2 of the chunk size of the present blob, in bytes.
    chunk_bits: u8,
    body: Vec<u8>,
}

impl PartReader {
    pub(crate) fn open(folder: &Path, manifest: &Manifest, part: &Part) -> Result<PartReader, BackupError> {
        let path = folder.join(part.file_name());
        let Some((file, length)) = open_file(&path)? else {
            return Err(BackupError::damaged(&path, "a part is missing"));
        };
        if length > part.length {
            return Err(BackupError::damaged(&path, OTHER_LENGTH));
        }
        let file = BufReader::with_capacity(BUFFER_BYTES, file);
        let digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        let mut reader = PartReader {
            path,
            file,
            part: *part,
            digest,
            length: 0,
            entries: 0,
            chunk_bits: CHUNK_BITS_MAX,
            body: Vec::new(),
        };
        let mut header = [0; HEADER_BYTES];
        reader.read(&mut header)?;
        let header = PartHeader::decode(&header).map_err(|FormatError(what)| reader.damaged(what))?;
        if header.backup != manifest.id
            || (header.keyspace, header.partition) != (part.keyspace, part.partition)
        {
            return Err(reader.damaged("it is of another backup, or another partition"));
        }
        Ok(reader)
    }

    fn damaged(&self, what: &str) -> BackupError {
        BackupError::damaged(&self.path, what)
    }

    fn read(&mut self, into: &mut [u8]) -> Result<(), BackupError> {
        match self.file.read_exact(into) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(self.damaged("it is cut"));
            }
            Err(error) => return Err(BackupError::file("reading", &self.path, &error)),
        }
        self.digest.update(into);
        self.length += into.len() as u64;
        Ok(())
    }

    /// The next entry; `None` once all are read and match the manifest.
    pub(crate) fn next(&mut self) -> Result<Option<PartEntry<'_>>, BackupError> {
        let mut frame = [0; FRAME_BYTES];
        self.read(&mut frame)?;
        let (length, sum) = PartEntry::frame(frame).map_err(|FormatError(what)| self.damaged(what))?;
        let mut body = std::mem::take(&mut self.body);
        body.resize(length, 0);
        self.read(&mut body)?;
        self.body = body;
        let is_end = match PartEntry::decode(&self.body, sum) {
            Ok(PartEntry::End { entries }) if entries == self.entries => true,
            Ok(PartEntry::End { .. }) => return Err(self.damaged("entries are missing")),
            Ok(PartEntry::Blob { chunk_bits, .. }) => {
                self.chunk_bits = chunk_bits;
                false
            }
            // No offset in a blob has more than 64 bits.
            Ok(PartEntry::Chunk { number, bytes, .. })
                if number > u64::MAX >> self.chunk_bits || bytes.len() > 1 << self.chunk_bits =>
            {
                return Err(self.damaged("a chunk is outside of its blob"));
            }
            Ok(_) => false,
            Err(FormatError(what)) => return Err(self.damaged(what)),
        };
        if is_end {
            let mut more = [0];
            let goes_on = self.file.read(&mut more).unwrap_or(1) > 0;
            if goes_on || self.length != self.part.length {
                return Err(self.damaged(OTHER_LENGTH));
            }
            if self.digest.finalize() as u32 != self.part.checksum {
                return Err(self.damaged("it does not match the checksum in the manifest"));
            }
            return Ok(None);
        }
        self.entries += 1;
        PartEntry::decode(&self.body, sum)
            .map(Some)
            .map_err(|FormatError(what)| BackupError::damaged(&self.path, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_folder_is_no_incomplete_backup() {
        let root = tempfile::tempdir().unwrap();
        let refusal = |folder: &Path| manifest_of(folder).unwrap_err().to_string();
        let absent = root.path().join("absent");
        assert_eq!(refusal(&absent), format!("{}: there is no such folder", shown_path(&absent)));
        let empty =
            format!("{}: there is no backup in it: this backup is incomplete", shown_path(root.path()));
        assert_eq!(refusal(root.path()), empty);
        fs::write(root.path().join(UNFINISHED), "").unwrap();
        assert!(refusal(root.path()).contains("the backup in it was never finished"));
    }
}
