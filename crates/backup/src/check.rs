//! Checks that a backup is complete, and iterates over its contents wherever they are in its chain.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use zerohop_wire::escaped::shown_path;

use crate::error::BackupError;
use crate::files::{PartReader, manifest_of};
use crate::format::manifest::{Keyspace, Manifest, Part};
use crate::format::part::PartEntry;

/// The highest number of backups in a chain.
const CHAIN_MAX: usize = 1_000;

/// A backup and the chain of its bases, the newest first; the last one is a full backup.
#[derive(Clone, Debug)]
pub struct Chain {
    links: Vec<(PathBuf, Manifest)>,
}

/// An item of a partition in a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BackupItem {
    Bytes { deadline: u64, key: Vec<u8>, value: Vec<u8> },
    List { deadline: u64, key: Vec<u8> },
    Values(Vec<Vec<u8>>),
    Blob { name: Vec<u8>, size: u64, chunk_bits: u8, attributes: Vec<u8> },
    Chunk { name: Vec<u8>, chunk_bits: u8, number: u64, bytes: Vec<u8> },
}

/// Checks a backup: reads every part of it and of its bases, and finds every item that a base has
/// for it. A base is looked for beside the backup, and in and beside the folders of `bases`. Each part that was read is reported:
/// the bytes of all parts so far, and of all parts that are to be read.
///
/// # Errors
/// It is not complete, or the disk fails.
pub fn check(folder: &Path, bases: &[PathBuf], each: &mut dyn FnMut(u64, u64)) -> Result<Chain, BackupError> {
    let chain = Chain::open(folder, bases)?;
    // A hostile manifest claims any length.
    let lengths = chain.links.iter().flat_map(|(_, manifest)| &manifest.parts).map(|part| part.length);
    let (mut done, total) = (0_u64, lengths.fold(0, u64::saturating_add));
    for (folder, manifest) in &chain.links {
        for part in &manifest.parts {
            let mut reader = PartReader::open(folder, manifest, part)?;
            while reader.next()?.is_some() {}
            done = done.saturating_add(part.length);
            each(done, total);
        }
    }
    if chain.links.len() > 1 {
        for part in &chain.newest().parts {
            let mut walk = chain.walk(part.keyspace, part.partition)?;
            while walk.next()?.is_some() {}
        }
    }
    Ok(chain)
}

impl Chain {
    fn open(folder: &Path, bases: &[PathBuf]) -> Result<Chain, BackupError> {
        // The folders of the folders that the caller has named.
        let roots: BTreeSet<PathBuf> =
            bases.iter().map(PathBuf::as_path).chain([folder]).filter_map(parent_of).collect();
        let mut links = vec![(folder.to_owned(), manifest_of(folder)?)];
        while let Some((folder, manifest)) = links.last()
            && manifest.is_incremental()
        {
            if links.len() > CHAIN_MAX {
                return Err(BackupError::damaged(folder, "too many backups go on from one another"));
            }
            let found = base_of(folder, manifest, &roots, bases)?;
            links.push(found);
        }
        Ok(Chain { links })
    }

    /// The newest backup, which the caller named.
    #[must_use]
    pub fn newest(&self) -> &Manifest {
        &self.links[0].1
    }

    /// The folders, the newest first.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.links.iter().map(|(folder, _)| &**folder)
    }

    /// The number of records and blobs that the newest backup has of a keyspace, by its index in the manifest.
    #[must_use]
    pub fn records_of(&self, keyspace: u32) -> u64 {
        let parts = self.newest().parts.iter().filter(|part| part.keyspace == keyspace);
        parts.fold(0, |sum, part| sum.saturating_add(part.records))
    }

    /// Iterates over the newest backup's contents of a partition of a keyspace; both are indexes in
    /// its manifest.
    pub(crate) fn walk(&self, keyspace: u32, partition: u32) -> Result<BackupReader<'_>, BackupError> {
        let settings = self.newest().keyspaces.get(keyspace as usize);
        let mut walk = BackupReader {
            chain: self,
            settings: settings.cloned().unwrap_or_default(),
            partition,
            level: 0,
            reader: None,
            requested: RequiredVersions::default(),
            later: RequiredVersions::default(),
            needs_list: false,
            blob: None,
        };
        walk.open()?;
        Ok(walk)
    }
}

/// The folder in which a folder is, however it is named.
fn parent_of(folder: &Path) -> Option<PathBuf> {
    Some(std::fs::canonicalize(folder).ok()?.parent()?.to_owned())
}

fn base_of(
    folder: &Path,
    manifest: &Manifest,
    roots: &BTreeSet<PathBuf>,
    bases: &[PathBuf],
) -> Result<(PathBuf, Manifest), BackupError> {
    let recorded = PathBuf::from(&manifest.base_folder);
    // A hostile manifest names any folder: only the last name counts.
    let beside = roots.iter().filter_map(|root| Some(root.join(recorded.file_name()?)));
    let all: BTreeSet<PathBuf> = bases.iter().cloned().chain(beside).collect();
    for candidate in all {
        if let Ok(found) = manifest_of(&candidate)
            && found.id == manifest.base
        {
            return Ok((candidate, found));
        }
    }
    let what = format!(
        "it goes on from a backup that was in {}, and is not beside this one: name its folder with --base",
        shown_path(&recorded)
    );
    Err(BackupError::damaged(folder, what))
}

/// Versions of items that an earlier backup must have.
#[derive(Debug, Default)]
struct RequiredVersions {
    records: BTreeMap<Vec<u8>, u64>,
    /// Per name and chunk number: version, and log2 of the chunk size in bytes.
    chunks: BTreeMap<(Vec<u8>, u64), (u64, u8)>,
}

/// See [`Chain::walk`].
pub(crate) struct BackupReader<'c> {
    chain: &'c Chain,
    settings: Keyspace,
    partition: u32,
    level: usize,
    reader: Option<PartReader>,
    requested: RequiredVersions,
    /// Items that this level refers to in its base.
    later: RequiredVersions,
    needs_list: bool,
    blob: Option<(Vec<u8>, u8)>,
}

impl BackupReader<'_> {
    /// Opens the part of the present level, if it has one.
    fn open(&mut self) -> Result<(), BackupError> {
        let Some((folder, manifest)) = self.chain.links.get(self.level) else { return Ok(()) };
        let is_it = |one: &Keyspace| one.name == self.settings.name && one.id == self.settings.id;
        let keyspace = manifest.keyspaces.iter().position(is_it);
        let is_of =
            |part: &&Part| Some(part.keyspace as usize) == keyspace && part.partition == self.partition;
        self.reader = match manifest.parts.iter().find(is_of) {
            Some(part) => Some(PartReader::open(folder, manifest, part)?),
            None => None,
        };
        (self.blob, self.needs_list) = (None, false);
        Ok(())
    }

    /// The next item; `None` at the end, when every item of a base has been found.
    pub(crate) fn next(&mut self) -> Result<Option<BackupItem>, BackupError> {
        loop {
            let BackupReader { reader, requested, later, needs_list: list_is_wanted, blob, level, .. } = self;
            let is_newest = *level == 0;
            let entry = match reader {
                Some(reader) => reader.next()?,
                None => None,
            };
            let Some(entry) = entry else {
                let folder = &self.chain.links[self.level].0;
                if !self.requested.records.is_empty() || !self.requested.chunks.is_empty() {
                    let what = "a later backup keeps what this one does not have";
                    return Err(BackupError::damaged(folder, what));
                }
                if self.later.records.is_empty() && self.later.chunks.is_empty() {
                    return Ok(None);
                }
                self.requested = std::mem::take(&mut self.later);
                self.level += 1;
                if self.level >= self.chain.links.len() {
                    return Err(BackupError::damaged(folder, "it keeps what is in no backup before"));
                }
                self.open()?;
                continue;
            };
            let mut is_wanted = |key: &[u8], version: u64| match requested.records.get(key) {
                Some(known) if *known == version => requested.records.remove(key).is_some(),
                _ => is_newest,
            };
            match entry {
                PartEntry::Bytes { version, deadline, key, value } => {
                    if is_wanted(key, version) {
                        let (key, value) = (key.to_vec(), value.to_vec());
                        return Ok(Some(BackupItem::Bytes { deadline, key, value }));
                    }
                }
                PartEntry::List { version, deadline, key, .. } => {
                    *list_is_wanted = is_wanted(key, version);
                    if *list_is_wanted {
                        return Ok(Some(BackupItem::List { deadline, key: key.to_vec() }));
                    }
                }
                PartEntry::Values(values) => {
                    if *list_is_wanted {
                        return Ok(Some(BackupItem::Values(
                            values.iter().map(|value| value.to_vec()).collect(),
                        )));
                    }
                }
                PartEntry::Kept { version, key, .. } => {
                    if is_wanted(key, version) {
                        later.records.insert(key.to_vec(), version);
                    }
                }
                PartEntry::Blob { size, chunk_bits, name, attributes, .. } => {
                    *blob = Some((name.to_vec(), chunk_bits));
                    if is_newest {
                        let (name, attributes) = (name.to_vec(), attributes.to_vec());
                        return Ok(Some(BackupItem::Blob { name, size, chunk_bits, attributes }));
                    }
                }
                PartEntry::Chunk { number, version, bytes } => {
                    let Some((name, bits)) = blob.clone() else { continue };
                    let place = (name, number);
                    let is_wanted = is_newest
                        || requested.chunks.get(&place).is_some_and(|(known, _)| *known == version)
                            && requested.chunks.remove(&place).is_some();
                    if is_wanted {
                        let (name, bytes) = (place.0, bytes.to_vec());
                        return Ok(Some(BackupItem::Chunk { name, chunk_bits: bits, number, bytes }));
                    }
                }
                PartEntry::KeptChunk { number, version } => {
                    let Some((name, bits)) = blob.clone() else { continue };
                    let place = (name, number);
                    let is_wanted = is_newest
                        || requested.chunks.get(&place).is_some_and(|(known, _)| *known == version)
                            && requested.chunks.remove(&place).is_some();
                    if is_wanted {
                        later.chunks.insert(place, (version, bits));
                    }
                }
                PartEntry::End { .. } => {}
            }
        }
    }
}
