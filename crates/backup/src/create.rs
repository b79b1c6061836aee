//! Creates a backup: all contents of a snapshot of the keyspaces, partition by partition.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use zerohop_client::{
    Client, Info, Keyspace, Range, Record, ScanKey, Snapshot, SnapshotBlob, SnapshotOptions,
};
use zerohop_wire::ids::PartitionId;

use crate::Progress;
use crate::error::BackupError;
use crate::files::{Folder, PartReader, PartWriter, manifest_of};
use crate::format::manifest::{self, Manifest};
use crate::format::part::PartEntry;

/// Bytes of values that are read concurrently, as far as their sizes are known; a single value may
/// exceed it.
const READ_BYTES_MAX: u64 = 16 << 20;
/// Records that are read concurrently.
const READ_RECORDS_MAX: usize = 256;
/// The assumed size of a record of unknown size, a list: one page.
const LIST_BYTES: u64 = 1 << 20;

/// A keyspace to back up, with its settings.
#[derive(Clone, Debug)]
pub struct Target {
    /// The keyspace.
    pub keyspace: Keyspace,
    /// The settings in the manifest. The partitions are those of the snapshot, the separators those of the keyspace.
    pub settings: manifest::Keyspace,
}

/// Totals of a backup, or of a read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupTotals {
    /// The snapshot's time, in ms since 1970.
    pub at_ms: u64,
    /// Number of records and blobs.
    pub records: u64,
    /// Number of these that are unchanged since the base.
    pub unchanged: u64,
    /// Bytes of contents that were read.
    pub bytes: u64,
    /// Bytes of files that were written.
    pub written: u64,
}

/// The base's contents of a partition.
#[derive(Debug, Default)]
struct BasePartition {
    /// Version, deadline, length.
    records: BTreeMap<Vec<u8>, (u64, u64, u64)>,
    /// Id, and versions of chunks.
    blobs: BTreeMap<Vec<u8>, (u64, BTreeMap<u64, u64>)>,
}

/// Writes a backup of keyspaces at the present time to a new or empty folder. Items that are
/// unchanged since `base` are stored as references to it. The cluster stays in service. If the call
/// fails or is dropped, the folder is restored to its previous state.
///
/// # Errors
/// The cluster or the disk fails; the folder is not empty; the base is not a backup, or has other
/// partitions.
pub async fn create(
    client: &Client,
    targets: &[Target],
    (folder, base): (&Path, Option<&Path>),
    options: SnapshotOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<BackupTotals, BackupError> {
    let base = base.map(|path| Ok::<_, BackupError>((path, manifest_of(path)?))).transpose()?;
    let files = Folder::begin(folder)?;
    let keyspaces: Vec<&Keyspace> = targets.iter().map(|target| &target.keyspace).collect();
    let snapshot = client.snapshot_with(&keyspaces, options).await?;
    let mut manifest = Manifest {
        id: snapshot.id(),
        at: snapshot.at().0,
        at_ms: snapshot.at().millis(),
        ..Manifest::default()
    };
    if let Some((path, base)) = &base {
        manifest.base = base.id;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        manifest.base_folder = path.to_string_lossy().into_owned();
        if base.at > manifest.at {
            let why = "the backup before is of a later time than this cluster has: it is of another";
            return Err(BackupError::Refused(why.to_owned()));
        }
    }
    let mut job = Job { snapshot: &snapshot, progress, totals: BackupTotals::default() };
    for (number, Target { keyspace, settings }) in (0..).zip(targets) {
        let division = snapshot.division(keyspace).unwrap_or(keyspace.division());
        let separators = division.separators().iter().map(<[u8]>::to_vec).collect();
        let settings =
            manifest::Keyspace { partitions: division.count().get(), separators, ..settings.clone() };
        // A part is named by its position, which in an ordered keyspace is not the number of the region.
        for (partition, id) in (0..).zip(division.partitions()) {
            let known = match &base {
                Some((path, base)) => BasePartition::of(path, base, &settings, partition)?,
                None => BasePartition::default(),
            };
            let mut part = files.part(manifest.id, number, partition);
            job.partition(keyspace, id, &known, &mut part).await?;
            if let Some(part) = part.finish()? {
                job.totals.written += part.length;
                job.totals.unchanged += part.kept;
                manifest.parts.push(part);
            }
        }
        manifest.keyspaces.push(settings);
    }
    job.totals.at_ms = manifest.at_ms;
    let totals = job.totals;
    files.finish(&manifest)?;
    // If a partition fails to close it, its lease expires there.
    let _left = snapshot.close().await;
    Ok(totals)
}

/// Reads all contents of keyspaces at the present time, so that corruption that cannot be repaired
/// is detected.
///
/// # Errors
/// An item cannot be read.
pub async fn read_all(
    client: &Client,
    targets: &[Target],
    options: SnapshotOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<BackupTotals, BackupError> {
    let keyspaces: Vec<&Keyspace> = targets.iter().map(|target| &target.keyspace).collect();
    let snapshot = client.snapshot_with(&keyspaces, options).await?;
    let totals = BackupTotals { at_ms: snapshot.at().millis(), ..BackupTotals::default() };
    let mut job = Job { snapshot: &snapshot, progress, totals };
    for Target { keyspace, .. } in targets {
        for partition in snapshot.division(keyspace).into_iter().flat_map(|division| division.partitions()) {
            job.partition(keyspace, partition, &BasePartition::default(), &mut PartWriter::discarding())
                .await?;
        }
    }
    let totals = job.totals;
    let _left = snapshot.close().await;
    Ok(totals)
}

impl BasePartition {
    fn of(
        folder: &Path,
        base: &Manifest,
        settings: &manifest::Keyspace,
        partition: u32,
    ) -> Result<BasePartition, BackupError> {
        let is_same =
            |one: &&(u32, &manifest::Keyspace)| one.1.name == settings.name && one.1.id == settings.id;
        let Some((number, before)) = (0..).zip(&base.keyspaces).find(|one| is_same(&one)) else {
            return Ok(BasePartition::default());
        };
        if before.partitions != settings.partitions || before.separators != settings.separators {
            return Err(BackupError::Refused(format!(
                "keyspace {} has been split since the backup before ({} partitions then, {} now): take a full one",
                settings.name, before.partitions, settings.partitions
            )));
        }
        let mut known = BasePartition::default();
        let is_it = |part: &&manifest::Part| (part.keyspace, part.partition) == (number, partition);
        let Some(part) = base.parts.iter().find(is_it) else { return Ok(known) };
        let mut reader = PartReader::open(folder, base, part)?;
        let mut chunks_of: Option<Vec<u8>> = None;
        while let Some(entry) = reader.next()? {
            match entry {
                PartEntry::Bytes { version, deadline, key, value } => {
                    known.records.insert(key.to_vec(), (version, deadline, value.len() as u64));
                }
                PartEntry::List { version, deadline, length, key }
                | PartEntry::Kept { version, deadline, length, key } => {
                    known.records.insert(key.to_vec(), (version, deadline, length));
                }
                PartEntry::Blob { id, name, .. } => {
                    known.blobs.insert(name.to_vec(), (id, BTreeMap::new()));
                    chunks_of = Some(name.to_vec());
                }
                PartEntry::Chunk { number, version, .. } | PartEntry::KeptChunk { number, version } => {
                    if let Some((_, chunks)) = chunks_of.as_ref().and_then(|name| known.blobs.get_mut(name)) {
                        chunks.insert(number, version);
                    }
                }
                PartEntry::Values(_) | PartEntry::End { .. } => {}
            }
        }
        Ok(known)
    }
}

struct Job<'j> {
    snapshot: &'j Snapshot,
    progress: &'j mut dyn FnMut(Progress),
    totals: BackupTotals,
}

impl Job<'_> {
    async fn partition(
        &mut self,
        keyspace: &Keyspace,
        partition: PartitionId,
        known: &BasePartition,
        part: &mut PartWriter,
    ) -> Result<(), BackupError> {
        let mut scan = self.snapshot.scan_partition(keyspace, partition, "");
        while let Some(page) = scan.next_page().await? {
            self.records(keyspace, &page, known, part).await?;
        }
        let mut list = self.snapshot.list_blobs_of_partition(keyspace, partition, "");
        while let Some(page) = list.next_page().await? {
            for (name, _) in page {
                let blob =
                    self.snapshot.blob(keyspace, name.clone()).await?.ok_or_else(partition_vanished_error)?;
                if !blob.info().finished {
                    // An unfinished blob is not visible to any reader.
                    continue;
                }
                self.blob(&name, &blob, known.blobs.get(&name[..]), part).await?;
            }
        }
        Ok(())
    }

    fn count_progress(&mut self, records: u64, bytes: u64) {
        self.totals.records += records;
        self.totals.bytes += bytes;
        (self.progress)(Progress { records: self.totals.records, bytes: self.totals.bytes });
    }

    /// Reads the records of one page of keys.
    async fn records(
        &mut self,
        keyspace: &Keyspace,
        page: &[ScanKey],
        known: &BasePartition,
        part: &mut PartWriter,
    ) -> Result<(), BackupError> {
        let keys: Vec<(&Keyspace, &Bytes)> = page.iter().map(|one| (keyspace, &one.key)).collect();
        let infos = self.snapshot.inspect_many(&keys).await?;
        let mut requested: Vec<(&Bytes, Info)> = Vec::new();
        for (one, info) in page.iter().zip(infos) {
            let info = info.ok_or_else(partition_vanished_error)?;
            let (version, deadline, length) = (info.version.0, info.expires_at_ms.unwrap_or(0), info.length);
            if known.records.get(&one.key[..]) == Some(&(version, deadline, length)) {
                part.put(&PartEntry::Kept { version, deadline, length, key: &one.key })?;
                self.count_progress(1, 0);
            } else {
                requested.push((&one.key, info));
            }
        }
        let mut left = &requested[..];
        while !left.is_empty() {
            let (mut bytes, mut count) = (0, 0);
            for (_, info) in left.iter().take(READ_RECORDS_MAX) {
                bytes +=
                    if info.record == zerohop_client::RecordType::List { LIST_BYTES } else { info.length };
                if count > 0 && bytes > READ_BYTES_MAX {
                    break;
                }
                count += 1;
            }
            let (some, rest) = left.split_at(count);
            left = rest;
            let keys: Vec<(&Keyspace, &Bytes)> = some.iter().map(|(key, _)| (keyspace, *key)).collect();
            let records = self.snapshot.read_many(&keys).await?;
            for ((key, info), record) in some.iter().zip(records) {
                self.record(keyspace, (key, info), record.ok_or_else(partition_vanished_error)?, part)
                    .await?;
            }
        }
        Ok(())
    }

    async fn record(
        &mut self,
        keyspace: &Keyspace,
        (key, info): (&Bytes, &Info),
        record: Record,
        part: &mut PartWriter,
    ) -> Result<(), BackupError> {
        let deadline = info.expires_at_ms.unwrap_or(0);
        match record {
            Record::Bytes { version, bytes, .. } => {
                part.put(&PartEntry::Bytes { version: version.0, deadline, key, value: &bytes })?;
                self.count_progress(1, bytes.len() as u64);
            }
            Record::List { version, length, mut values, .. } => {
                part.put(&PartEntry::List { version: version.0, deadline, length, key })?;
                let mut have = 0;
                loop {
                    have += values.len() as u64;
                    let bytes = values.iter().map(Bytes::len).sum::<usize>();
                    part.put(&PartEntry::Values(values.iter().map(|value| &value[..]).collect()))?;
                    self.count_progress(0, bytes as u64);
                    if have >= length {
                        break;
                    }
                    let range = Range { start: have as i64, stop: i64::MAX };
                    match self.snapshot.lookup_range(keyspace, key, range).await? {
                        Some(Record::List { values: more, .. }) if !more.is_empty() => values = more,
                        _ => return Err(partition_vanished_error()),
                    }
                }
                self.count_progress(1, 0);
            }
        }
        Ok(())
    }

    async fn blob(
        &mut self,
        name: &[u8],
        blob: &SnapshotBlob<'_>,
        known: Option<&(u64, BTreeMap<u64, u64>)>,
        part: &mut PartWriter,
    ) -> Result<(), BackupError> {
        let info = blob.info();
        let chunk_bits = info.chunk_bytes.trailing_zeros() as u8;
        part.put(&PartEntry::Blob {
            version: info.version.0,
            id: info.id.0,
            size: info.size,
            chunk_bits,
            name,
            attributes: &info.attributes,
        })?;
        let known = known.filter(|(id, _)| *id == info.id.0).map(|(_, chunks)| chunks);
        for number in blob.chunk_numbers().await? {
            if let Some(before) = known.and_then(|chunks| chunks.get(&number))
                && blob.chunk_version(number).await?.is_some_and(|version| version.0 == *before)
            {
                part.put(&PartEntry::KeptChunk { number, version: *before })?;
                continue;
            }
            if let Some((version, bytes)) = blob.chunk(number).await? {
                part.put(&PartEntry::Chunk { number, version: version.0, bytes: &bytes })?;
                self.count_progress(0, bytes.len() as u64);
            }
        }
        self.count_progress(1, 0);
        Ok(())
    }
}

fn partition_vanished_error() -> BackupError {
    BackupError::Refused(
        "the snapshot does not hold what it has listed: this is a fault of the cluster".to_owned(),
    )
}
