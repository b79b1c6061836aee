//! What a client does with a snapshot: it opens the snapshot with the client's procedures, and
//! reports all that these return.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use zerohop_base::random::Random;
use zerohop_placement::KeyOrder;
use zerohop_session::SessionError;
use zerohop_session::procedures::{
    ClusterHandle, Error, Keyspace, Record, Snapshot, SnapshotBlob, SnapshotOptions,
};
use zerohop_wire::Failure;
use zerohop_wire::blob::is_of_blob;
use zerohop_wire::ids::Timestamp;

use super::transaction_reads::{ReadResult, read_of, read_result, reply_of};
use crate::snapshots::SnapshotRecord;
use crate::streams::Draw;
use crate::workload::blobs::{BLOBS, BlobContents, any, header_id, name, read_attributes};
use crate::workload::plain_blobs::PLAIN_NAME;
use crate::workload::transactional::{ClassedKey, KEYSPACES, KeyClass};

const MS: u64 = 1_000;

/// The shortest and the longest rest between two rounds of reads, in microseconds.
const REST_US: [u64; 2] = [100 * MS, 3_000 * MS];

/// What a snapshot reports.
#[derive(Debug)]
pub(super) enum SnapshotReport {
    /// It has the keyspaces, and opens the snapshot.
    Opens,
    NotOpened(Error),
    /// It is open, of this time.
    Opened(Timestamp),
    /// It shows this of a record or blob.
    Shows(u64, SnapshotRecord),
    /// It shows this version of a record or of a blob's header; zero if absent.
    Version(u64, Timestamp),
    ListsKeys,
    ListsBlobs,
    /// The handle is closed, or dropped.
    Ends {
        is_closed: bool,
    },
    /// The servers do not have it any more.
    Expired,
}

/// What a snapshot draws before it begins.
#[derive(Debug)]
pub(super) struct SnapshotPlan {
    /// How long it has the keyspaces before.
    pub(super) opens_after: Duration,
    pub(super) options: SnapshotOptions,
    /// Rounds of reads.
    pub(super) rounds: u64,
    /// Whether it is closed at the end; otherwise its lease expires.
    pub(super) is_closed: bool,
    pub(super) random: Random,
    pub(super) are_over: Arc<AtomicBool>,
}

/// The servers do not have the snapshot any more.
struct SnapshotExpiry;

/// Opens a snapshot, reads from it, and closes it.
pub(super) async fn run_snapshot(
    handle: ClusterHandle,
    mut plan: SnapshotPlan,
    report: impl Fn(SnapshotReport),
) {
    let (first, second) = match (handle.keyspace(KEYSPACES[0]).await, handle.keyspace(KEYSPACES[1]).await) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(error), _) | (_, Err(error)) => return report(SnapshotReport::NotOpened(error)),
    };
    handle.sleep(plan.opens_after).await;
    report(SnapshotReport::Opens);
    let snapshot = match handle.snapshot_with(&[&first, &second], plan.options).await {
        Ok(snapshot) => snapshot,
        Err(error) => return report(SnapshotReport::NotOpened(error)),
    };
    report(SnapshotReport::Opened(snapshot.at()));
    let keyspaces = [first, second];
    let reader = SnapshotReader { snapshot: &snapshot, keyspaces: &keyspaces, report: &report };
    for _ in 0..plan.rounds {
        if plan.are_over.load(Ordering::Relaxed) {
            break;
        }
        if let Err(SnapshotExpiry) = reader.read_round(&mut plan.random).await {
            return report(SnapshotReport::Expired);
        }
        handle.sleep(Duration::from_micros(plan.random.between(REST_US[0], REST_US[1]))).await;
    }
    if plan.is_closed {
        let _left = snapshot.close().await;
    }
    report(SnapshotReport::Ends { is_closed: plan.is_closed });
}

struct SnapshotReader<'s, R> {
    snapshot: &'s Snapshot,
    keyspaces: &'s [Keyspace; 2],
    report: &'s R,
}

/// What a read has brought. A read that failed proves nothing, unless the snapshot has expired.
fn known<T>(result: Result<T, Error>) -> Result<Option<T>, SnapshotExpiry> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.failure(), Some(Failure::SnapshotExpired)) => Err(SnapshotExpiry),
        Err(error) if is_split_error(&error) => Err(SnapshotExpiry),
        Err(_) => Ok(None),
    }
}

impl<R: Fn(SnapshotReport)> SnapshotReader<'_, R> {
    async fn read_round(&self, random: &mut Random) -> Result<(), SnapshotExpiry> {
        let classes: &[KeyClass] = match random.below(4) {
            0 => &[KeyClass::Account],
            1 => &[KeyClass::Counter],
            2 => &[KeyClass::List],
            _ => &[KeyClass::Register, KeyClass::List],
        };
        let keys: Vec<ClassedKey> = classes.iter().flat_map(|class| ClassedKey::all(*class)).collect();
        let records: Vec<(&Keyspace, Vec<u8>)> =
            keys.iter().map(|key| (&self.keyspaces[key.keyspace], key.bytes())).collect();
        if random.chance(1, 2) {
            for (key, found) in
                keys.iter().zip(known(self.snapshot.read_many(&records).await)?.unwrap_or_default())
            {
                self.show_record(*key, found.as_ref());
            }
        } else {
            for (key, (keyspace, bytes)) in keys.iter().zip(&records) {
                if let Some(found) = known(self.snapshot.lookup(keyspace, bytes).await)? {
                    self.show_record(*key, found.as_ref());
                }
            }
        }
        self.read_blob(any(random), random.chance(1, 2)).await?;
        match random.below(6) {
            0 => {
                let infos = known(self.snapshot.inspect_many(&records).await)?.unwrap_or_default();
                for (key, info) in keys.iter().zip(infos) {
                    self.version(key.id(), info.map(|info| info.version));
                }
            }
            1 => {
                let (keyspace, bytes) = &records[0];
                if let Some(info) = known(self.snapshot.inspect(keyspace, bytes).await)? {
                    self.version(keys[0].id(), info.map(|info| info.version));
                }
            }
            2 => self.scan(random.below(2) as usize).await?,
            3 => self.list_blobs().await?,
            _ => {}
        }
        Ok(())
    }

    fn version(&self, of: u64, version: Option<Timestamp>) {
        (self.report)(SnapshotReport::Version(of, version.unwrap_or(Timestamp::ZERO)));
    }

    fn show_record(&self, key: ClassedKey, record: Option<&Record>) {
        let answer = reply_of(record);
        let found = match read_result(key, &answer) {
            Some(got) => SnapshotRecord {
                version: got.version().0,
                actions: read_of(key, &got).into_iter().collect(),
                account: match got {
                    ReadResult::Number(_, holds) => {
                        Some((key.class as u64, ClassedKey::all(key.class).len(), holds))
                    }
                    _ => None,
                },
                impossible: None,
            },
            None => SnapshotRecord::impossible(format!("{key:?}: {answer:?}")),
        };
        self.version(key.id(), Some(Timestamp(found.version)));
        (self.report)(SnapshotReport::Shows(key.id(), found));
    }

    async fn read_blob(&self, blob: u64, is_streamed: bool) -> Result<(), SnapshotExpiry> {
        let Some(found) = known(self.snapshot.blob(&self.keyspaces[0], name(blob)).await)? else {
            return Ok(());
        };
        self.version(header_id(blob), found.as_ref().map(|found| found.info().version));
        let shown = match found {
            None => Some(SnapshotRecord::nothing()),
            Some(found) => self.contents(blob, &found, is_streamed).await?,
        };
        if let Some(shown) = shown {
            (self.report)(SnapshotReport::Shows(header_id(blob), shown));
        }
        Ok(())
    }

    /// All that is in a blob; `None` if a read failed.
    async fn contents(
        &self,
        blob: u64,
        found: &SnapshotBlob<'_>,
        is_streamed: bool,
    ) -> Result<Option<SnapshotRecord>, SnapshotExpiry> {
        let info = found.info();
        if !info.finished {
            return Ok(None);
        }
        let Some((edition, change)) = read_attributes(&info.attributes) else {
            return Ok(Some(SnapshotRecord::impossible(format!("no header: {info:?}"))));
        };
        let mut chunks: Vec<(Timestamp, Bytes)> = Vec::new();
        for number in 0..info.size.div_ceil(info.chunk_bytes) {
            let Some(chunk) = known(found.chunk(number).await)? else { return Ok(None) };
            chunks.push(chunk.unwrap_or_default());
        }
        if is_streamed {
            let mut whole = Vec::new();
            for (number, (_, bytes)) in (1..).zip(&chunks) {
                whole.extend_from_slice(bytes);
                whole.resize(info.size.min(number * info.chunk_bytes) as usize, 0);
            }
            let (mut stream, mut streamed) = (found.read_at(0, u64::MAX), Vec::new());
            loop {
                match known(stream.next_piece().await)? {
                    Some(Some(piece)) => streamed.extend_from_slice(&piece),
                    Some(None) => break,
                    None => return Ok(None),
                }
            }
            if whole != streamed {
                let why = format!("blob {blob} is streamed otherwise than its chunks are read");
                return Ok(Some(SnapshotRecord::impossible(why)));
            }
        }
        let read = BlobContents {
            blob,
            edition,
            change,
            order: info.id.0 + info.generation,
            size: info.size,
            chunks: chunks.iter().map(|(version, bytes)| (version.0, &bytes[..])).collect(),
        };
        let version = chunks.iter().map(|(version, _)| version.0).max().unwrap_or(0);
        let version = version.max(info.version.0);
        Ok(Some(match read.actions() {
            Ok(actions) => SnapshotRecord { version, actions, account: None, impossible: None },
            Err(what) => SnapshotRecord::impossible(format!("blob {blob}: {what}")),
        }))
    }

    /// Scans one of the keyspaces: every record is listed once, with the version that reads show.
    async fn scan(&self, keyspace: usize) -> Result<(), SnapshotExpiry> {
        let Some(mut listed) = self.list_keys(&self.keyspaces[keyspace]).await? else { return Ok(()) };
        (self.report)(SnapshotReport::ListsKeys);
        let classes = [KeyClass::List, KeyClass::Register, KeyClass::Account, KeyClass::Counter];
        let keys = classes.into_iter().flat_map(ClassedKey::all).filter(|key| key.keyspace == keyspace);
        let places = keys.map(|key| (key.id(), key.bytes())).collect();
        listed.retain(|(key, _)| !is_of_blob(key));
        self.show_listed(places, listed);
        Ok(())
    }

    /// All keys of a keyspace with their versions; `None`: a page failed. Those of an ordered one are listed as a range.
    async fn list_keys(
        &self,
        keyspace: &Keyspace,
    ) -> Result<Option<Vec<(Bytes, Timestamp)>>, SnapshotExpiry> {
        let mut listed = Vec::new();
        let mut keys = self.snapshot.scan(keyspace, Bytes::new());
        let mut range = self.snapshot.scan_range::<&str>(keyspace, ..).page_keys(3);
        if self.snapshot.at().0.is_multiple_of(2) {
            range = range.reverse();
        }
        loop {
            let page = match keyspace.config().order {
                KeyOrder::Ordered => range.next_page().await,
                KeyOrder::Hashed => keys.next_page().await,
            };
            match known(page)? {
                Some(Some(keys)) => listed.extend(keys.into_iter().map(|one| (one.key, one.version))),
                Some(None) => return Ok(Some(listed)),
                None => return Ok(None),
            }
        }
    }

    async fn list_blobs(&self) -> Result<(), SnapshotExpiry> {
        let mut list = self.snapshot.list_blobs(&self.keyspaces[0], Bytes::new());
        let mut listed = Vec::new();
        loop {
            match known(list.next_page().await)? {
                Some(Some(names)) => listed.extend(names),
                Some(None) => break,
                None => return Ok(()),
            }
        }
        listed.retain(|(name, _)| *name != PLAIN_NAME);
        (self.report)(SnapshotReport::ListsBlobs);
        self.show_listed((0..BLOBS).map(|blob| (header_id(blob), name(blob))).collect(), listed);
        Ok(())
    }

    /// Reports the version of every record that may be in a listing.
    fn show_listed(&self, places: Vec<(u64, Vec<u8>)>, mut listed: Vec<(Bytes, Timestamp)>) {
        for (of, name) in places {
            let place = listed.iter().position(|(listed, _)| **listed == name[..]);
            self.version(of, place.map(|place| listed.swap_remove(place).1));
        }
        if !listed.is_empty() {
            let what = format!("listed twice, or never written: {listed:?}");
            (self.report)(SnapshotReport::Shows(header_id(0), SnapshotRecord::impossible(what)));
        }
    }
}

/// Whether the keyspace has been split meanwhile.
pub(super) fn is_split_error(error: &Error) -> bool {
    matches!(error.reason(), Some(SessionError::Split { .. }))
}
