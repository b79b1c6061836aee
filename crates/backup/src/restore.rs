//! Restores a backup into a cluster.

use std::future::IntoFuture;

use zerohop_client::{Blob, Expiry, Failure, Keyspace};

use crate::Progress;
use crate::check::{BackupItem, Chain};
use crate::error::BackupError;

/// Name of a record that marks a keyspace as incomplete while it is being restored.
const UNFINISHED: &[u8] = b"\xFFzhr unfinished restore";
/// The highest number of records that are written concurrently, and their bytes; a single record
/// may exceed it.
const WRITES_MAX: usize = 128;
const WRITE_BYTES_MAX: usize = 8 << 20;
/// The highest number of values in one append.
const APPEND_VALUES_MAX: usize = 4096;
/// Bytes of one append; a single value may exceed it.
const APPEND_BYTES_MAX: usize = 4 << 20;

/// Totals of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreTotals {
    /// Number of records and blobs.
    pub records: u64,
    /// Bytes of their contents.
    pub bytes: u64,
}

/// Whether a backup may be restored into a keyspace: it is empty, or has the remains of an
/// unfinished restore. Changes nothing.
///
/// # Errors
/// The cluster fails.
pub async fn is_free(keyspace: &Keyspace) -> Result<bool, BackupError> {
    Ok(keyspace.lookup_bytes(UNFINISHED).await?.is_some() || is_empty(keyspace).await?)
}

/// Marks a keyspace as one that is being restored: until [`finish`] it [`is_free`].
///
/// # Errors
/// The cluster fails.
pub async fn begin(keyspace: &Keyspace) -> Result<(), BackupError> {
    keyspace.insert(UNFINISHED, "a restore is under way, or was and did not get to its end").await?;
    Ok(())
}

/// Removes the mark.
///
/// # Errors
/// The cluster fails.
pub async fn finish(keyspace: &Keyspace) -> Result<(), BackupError> {
    keyspace.remove(UNFINISHED).await?;
    Ok(())
}

/// Restores a keyspace of a backup, by its index in the manifest, into a keyspace: records and
/// blobs of the backup replace those with the same key, and all others stay. Must be called between
/// [`begin`] and [`finish`].
///
/// # Errors
/// The cluster or the disk fails.
pub async fn restore(
    chain: &Chain,
    place: u32,
    keyspace: &Keyspace,
    progress: &mut dyn FnMut(Progress),
) -> Result<RestoreTotals, BackupError> {
    let mut writer =
        Writer { keyspace, progress, restored: RestoreTotals::default(), records: vec![], bytes: 0 };
    let (mut list, mut blob) = (None, None);
    for partition in chain.newest().partitions_of(place) {
        let mut walk = chain.walk(place, partition)?;
        while let Some(item) = walk.next()? {
            if !matches!(item, BackupItem::Values(_)) {
                writer.end_list(list.take()).await?;
            }
            if !matches!(item, BackupItem::Chunk { .. }) {
                writer.end_blob(blob.take()).await?;
            }
            match item {
                BackupItem::Bytes { deadline, key, value } => writer.record(deadline, key, value).await?,
                BackupItem::List { deadline, key } => {
                    keyspace.remove(&key).await?;
                    list = Some((key, deadline));
                }
                BackupItem::Values(values) => {
                    if let Some((key, _)) = &list {
                        writer.values(key, &values).await?;
                    }
                }
                BackupItem::Blob { name, size, chunk_bits, attributes } => {
                    let made = keyspace.blob(name).with_unfinished();
                    made.delete().await?;
                    made.create_unfinished(Some(chunk_bits), &attributes).await?;
                    if size > 0 {
                        made.truncate(size).await?;
                    }
                    blob = Some((made, attributes));
                    writer.count_progress(1, 0);
                }
                BackupItem::Chunk { name, chunk_bits, number, bytes } => {
                    if !bytes.is_empty() {
                        keyspace.blob(name).with_unfinished().write_at(number << chunk_bits, &bytes).await?;
                        writer.count_progress(0, bytes.len() as u64);
                    }
                }
            }
        }
        writer.end_list(list.take()).await?;
        writer.end_blob(blob.take()).await?;
    }
    writer.flush().await?;
    Ok(writer.restored)
}

/// Whether a keyspace is empty.
async fn is_empty(keyspace: &Keyspace) -> Result<bool, BackupError> {
    let has_records = keyspace.scan("").next_page().await?.is_some();
    Ok(!has_records && keyspace.list_blobs("").next_page().await?.is_none())
}

struct Writer<'w> {
    keyspace: &'w Keyspace,
    progress: &'w mut dyn FnMut(Progress),
    restored: RestoreTotals,
    /// To be written concurrently: deadline, key, value.
    records: Vec<(u64, Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

impl Writer<'_> {
    fn count_progress(&mut self, records: u64, bytes: u64) {
        let RestoreTotals { records: all, bytes: total } = &mut self.restored;
        (*all, *total) = (*all + records, *total + bytes);
        (self.progress)(Progress { records: *all, bytes: *total });
    }

    async fn record(&mut self, deadline: u64, key: Vec<u8>, value: Vec<u8>) -> Result<(), BackupError> {
        self.bytes += key.len() + value.len();
        self.records.push((deadline, key, value));
        if self.records.len() >= WRITES_MAX || self.bytes >= WRITE_BYTES_MAX {
            self.flush().await
        } else {
            Ok(())
        }
    }

    async fn flush(&mut self) -> Result<(), BackupError> {
        self.bytes = 0;
        let records = std::mem::take(&mut self.records);
        let expiry = |deadline: u64| if deadline == 0 { Expiry::Never } else { Expiry::AtMs(deadline) };
        // Sends all writes first, and then awaits them.
        let under_way: Vec<_> = records
            .iter()
            .map(|(deadline, key, value)| {
                self.keyspace.insert_until(key, value, expiry(*deadline)).into_future()
            })
            .collect();
        let mut bytes = 0;
        for (pending, (_, _, value)) in under_way.into_iter().zip(&records) {
            pending.await?;
            bytes += value.len() as u64;
        }
        self.count_progress(records.len() as u64, bytes);
        Ok(())
    }

    async fn values(&mut self, key: &[u8], values: &[Vec<u8>]) -> Result<(), BackupError> {
        let mut left = values;
        while !left.is_empty() {
            let (mut bytes, mut count) = (0, 0);
            for value in left.iter().take(APPEND_VALUES_MAX) {
                bytes += value.len() + 4;
                if count > 0 && bytes > APPEND_BYTES_MAX {
                    break;
                }
                count += 1;
            }
            let (some, rest) = left.split_at(count);
            left = rest;
            let some: Vec<&[u8]> = some.iter().map(Vec::as_slice).collect();
            self.keyspace.append(key, &some).await?;
            self.count_progress(0, some.iter().map(|value| value.len() as u64).sum());
        }
        Ok(())
    }

    /// All chunks of a blob are written: marks it finished.
    async fn end_blob(&mut self, blob: Option<(Blob<'_>, Vec<u8>)>) -> Result<(), BackupError> {
        if let Some((blob, attributes)) = blob {
            blob.set_attributes(&attributes).await?;
        }
        Ok(())
    }

    /// All values of a list are written: sets its expiry.
    async fn end_list(&mut self, list: Option<(Vec<u8>, u64)>) -> Result<(), BackupError> {
        let Some((key, deadline)) = list else { return Ok(()) };
        if deadline > 0 {
            match self.keyspace.expire(&key, Expiry::AtMs(deadline)).await {
                Ok(_) => {}
                Err(error) if matches!(error.failure(), Some(Failure::NotFound)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.count_progress(1, 0);
        Ok(())
    }
}
