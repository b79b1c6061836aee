//! Truncation and removal of a blob.
//!
//! One transaction truncates header and chunks. If there are too many chunks, the client first changes the header, which then records the pending
//! truncation. Next it truncates the chunks that exist, and finally it marks the truncation as complete in the header. If the client dies in between, the next
//! writer does the rest; a repetition is harmless. Until the truncation is complete, a reader with the old header may read removed bytes in chunks
//! that were not reached yet.
//!
//! The explicit truncation or removal of many chunks may take longer than one deadline: each of its steps has one of its own. An operation that only finds
//! a truncation of another client pending ends by its own deadline, and the next one goes on where it ended.

use zerohop_wire::Failure;
use zerohop_wire::blob::{BlobStamp, StagedExtensionState};
use zerohop_wire::messages::{
    BlobChange, Condition, RecordOperation as WireOperation, RecordWrite, Remove, WriteChange,
};

use super::Blob;
use super::chunks::{AbsentChunks, BlobChunks};
use crate::planted::{Bug, is_planted};
use crate::procedures::blob_knowledge::CachedHeader;
use crate::procedures::error::{BlobError, Error};
use crate::procedures::limits::BLOB_ATTEMPTS_MAX;
use crate::procedures::transaction::Attempts;

impl Blob<'_> {
    /// Sets the size of the blob: bytes behind it are removed, and added bytes are zeros. Returns when all of this is done. Up to 4,096 chunks are
    /// truncated atomically, so that no reader sees an intermediate state. Ends with `NotFound` if the blob is absent.
    pub async fn truncate(&self, size: u64) -> Result<(), Error> {
        let mut blob = self.in_call();
        let key = blob.header_key()?;
        let mut attempts = Attempts::new(blob.client());
        blob.remember(None);
        for _ in 0..BLOB_ATTEMPTS_MAX {
            if self.is_long(&blob.recalled().await?) {
                // Each step is a call of its own, and so is what follows.
                self.completed_header().await?;
                blob = self.in_call();
                attempts = Attempts::new(blob.client());
            }
            let header = blob.completed_header().await?;
            let stamp = header.stamp;
            if size >= header.size {
                blob.check_end(&header, size)?;
                match blob
                    .change(&key, Condition::IfVersion(header.version), BlobChange::Grow { stamp, size })
                    .await
                {
                    Ok(_) => return Ok(()),
                    Err(error) => blob.unless_other(error)?,
                }
                continue;
            }
            if header.chunks() - (size >> header.chunk_bits) > blob.limits().transaction_chunks {
                let change = BlobChange::Truncate { stamp, size };
                match blob.change(&key, Condition::IfVersion(header.version), change).await {
                    Ok(_) => {
                        blob.remember(None);
                        // Each step is a call of its own.
                        return self.completed_header().await.map(drop);
                    }
                    Err(error) => blob.unless_other(error)?,
                }
                continue;
            }
            let (after, cut) = (next(stamp), next(header.chunk_stamp()));
            let mut transaction = blob.transaction();
            transaction.header(Condition::IfVersion(header.version), BlobChange::Truncate { stamp, size })?;
            let first = match is_planted(Bug::BlobTruncateKeepsBytes) {
                true => header.chunks(),
                false => size >> header.chunk_bits,
            };
            for number in first..header.chunks() {
                let keep = size.saturating_sub(number << header.chunk_bits) as u32;
                let change = BlobChange::TruncateChunk { stamp: cut, keep, creates_absent: false };
                transaction.chunk(&header, number, change, None)?;
            }
            transaction.header(Condition::Always, BlobChange::Settle { stamp: after })?;
            match transaction.commit().await {
                Ok(_) => {
                    blob.remember(None);
                    return Ok(());
                }
                Err(error) => blob.retry_after(error, &mut attempts).await?,
            }
        }
        Err(blob.error(BlobError::Contended))
    }

    /// Removes the blob, atomically under the same limit as [`Blob::truncate`]. Returns whether it existed. Also removes staged contents that were
    /// never bound, and leftovers of old contents.
    ///
    /// # Errors
    /// If there was a blob, those of its removal only: a failure to remove staged contents leaves them for the next writer or removal. If there was
    /// none, also those of the removal of staged contents.
    pub async fn delete(&self) -> Result<bool, Error> {
        let blob = &self.in_call();
        // A step of the removal of many chunks is a call of its own.
        let (was_there, rest) = tokio::join!(self.delete_if(|_| true), blob.remove_staged());
        match was_there? {
            true => Ok(true),
            false => rest.map(|()| false),
        }
    }

    /// Same as [`Blob::delete`], if the header satisfies `is_meant`. A handle inside a call does all steps in that call.
    pub(super) async fn delete_if(&self, is_meant: impl Fn(&CachedHeader) -> bool) -> Result<bool, Error> {
        let mut blob = self.in_call();
        let mut attempts = Attempts::new(blob.client());
        for _ in 0..BLOB_ATTEMPTS_MAX {
            let Some(header) = blob.header().await?.filter(&is_meant) else { return Ok(false) };
            if header.chunks() > blob.limits().transaction_chunks {
                if self.delete_in_steps(&header).await? {
                    return Ok(true);
                }
                blob = self.in_call();
                attempts = Attempts::new(blob.client());
                continue;
            }
            if is_planted(Bug::BlobChunksRemovedFirst) {
                let stamp = header.chunk_stamp();
                BlobChunks::of(&blob, &header)
                    .change_existing((0, header.chunks()), |_| BlobChange::DropChunk { stamp })
                    .await?;
            }
            let mut transaction = blob.transaction();
            transaction.remove_header(header.version)?;
            for number in 0..header.chunks() {
                let change = BlobChange::DropChunk { stamp: header.chunk_stamp() };
                transaction.chunk(&header, number, change, None)?;
            }
            match transaction.commit().await {
                Ok(_) => {
                    blob.remember(None);
                    return Ok(true);
                }
                Err(error) => {
                    blob.retry_after(error, &mut attempts).await.map_err(|error| blob.contended(error))?;
                }
            }
        }
        Err(blob.error(BlobError::Contended))
    }

    /// Removes a blob with more chunks than fit in one transaction: the client truncates them, removes the header, and then removes the rest of the
    /// chunks.
    async fn delete_in_steps(&self, header: &CachedHeader) -> Result<bool, Error> {
        let (key, chunks) = (self.header_key()?, header.chunks());
        if header.staged_extension != StagedExtensionState::Not {
            // Only the positions behind the size are marked. A truncation to nothing would mark those of all chunks.
            return self.complete_truncation(header).await.map(|()| false);
        }
        // A client that was killed during the removal has already truncated the blob.
        if header.size > 0 {
            let change = BlobChange::Truncate { stamp: header.stamp, size: 0 };
            if let Err(error) = self.change(&key, Condition::IfVersion(header.version), change).await {
                return self.unless_other(error).map(|()| false);
            }
        }
        self.remember(None);
        // Another removal may have completed first. Only one of them reports that the blob existed.
        let Some(now) = self.header().await? else { return Ok(false) };
        if now.size > 0 || now.stamp.id != header.stamp.id {
            return Ok(false);
        }
        let stamp = now.chunk_stamp();
        let cut = |_| BlobChange::TruncateChunk { stamp, keep: 0, creates_absent: false };
        let begun = BlobChunks::of(self, &now).truncate((0, chunks), AbsentChunks::Stay, cut).await?;
        let remove = RecordWrite {
            key: &key,
            condition: Condition::IfVersion(now.version),
            change: WriteChange::Remove(Remove),
        };
        if let Err(error) = self.call(&WireOperation::Write(remove)).await {
            return self.unless_other(error).map(|()| false);
        }
        begun.complete();
        self.remember(None);
        // Also those behind the size that an earlier staged extension, cut off, has left marked.
        let drop = |_| BlobChange::DropChunk { stamp };
        BlobChunks::of(self, &now).change_existing((0, u64::MAX), drop).await?;
        Ok(true)
    }

    /// Completes a pending truncation, or cuts off the bytes of a staged extension.
    pub(super) async fn complete_truncation(&self, header: &CachedHeader) -> Result<(), Error> {
        let key = self.header_key()?;
        let (stamp, size, bits) = (header.stamp, header.size, header.chunk_bits);
        if header.staged_extension == StagedExtensionState::UnderWay {
            let cut = BlobChange::Truncate { stamp, size };
            let cut = self.change(&key, Condition::IfVersion(header.version), cut).await;
            return cut.map(drop).or_else(|error| self.unless_other(error));
        }
        let marks = header.staged_extension == StagedExtensionState::CutOff;
        let keep = |number: u64| size.saturating_sub(number << bits) as u32;
        let cut = |number| BlobChange::TruncateChunk {
            stamp: header.chunk_stamp(),
            keep: keep(number),
            creates_absent: marks,
        };
        // The region that an extension has announced is hardly longer than what it has written.
        let absent = if marks { AbsentChunks::AreCreated } else { AbsentChunks::Stay };
        let begun = BlobChunks::of(self, header).truncate(pending_numbers(header), absent, cut).await?;
        let settled = self.change(&key, Condition::Always, BlobChange::Settle { stamp }).await;
        // Another client has truncated the blob again.
        settled.map(drop).or_else(|error| self.unless_other(error))?;
        begun.complete();
        Ok(())
    }

    /// Whether a truncation of more chunks than one transaction changes is pending.
    fn is_long(&self, header: &CachedHeader) -> bool {
        let (first, end) = pending_numbers(header);
        end.saturating_sub(first) > self.limits().transaction_chunks
    }

    /// Returns the error, unless it says that the header has changed.
    pub(super) fn unless_other(&self, error: Error) -> Result<(), Error> {
        match error.failure() {
            Some(Failure::ConditionFailed { .. } | Failure::NotFound) => {
                self.remember(None);
                Ok(())
            }
            _ => self.unless_stale(error),
        }
    }
}

/// The numbers of the chunks that a pending truncation changes: the first one, and the one behind the last.
fn pending_numbers(header: &CachedHeader) -> (u64, u64) {
    (header.size >> header.chunk_bits, header.pending_truncation_end.div_ceil(header.chunk_bytes()))
}

/// The generation after a truncation.
pub(super) fn next(stamp: BlobStamp) -> BlobStamp {
    BlobStamp { generation: stamp.generation + 1, ..stamp }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use bytes::Bytes;
    use zerohop_wire::blob::BlobHeader;
    use zerohop_wire::ids::Timestamp;

    use super::*;
    use crate::procedures::limits::{BLOB_TRUNCATES_PARALLEL, BlobLimits};
    use crate::procedures::scripted_shell::{Script, handle, handle_with, keyspace, run};
    use crate::{Reply, SessionError as Reason};

    /// A header in a reply.
    fn header(size: u64) -> Reply {
        header_with(size, 0)
    }

    fn header_with(size: u64, pending_truncation_end: u64) -> Reply {
        let mut bytes = Vec::new();
        let header = BlobHeader {
            chunk_bits: 12,
            stamp: BlobStamp { id: 7, generation: 0 },
            size,
            pending_truncation_end,
            staged_extension: StagedExtensionState::Not,
            attributes: b"",
        };
        header.encode(&mut bytes);
        Reply::Value { version: Timestamp(9), length: bytes.len() as u64, bytes: Bytes::from(bytes) }
    }

    fn not_found() -> Result<Reply, Reason> {
        Err(Reason::Answer { failure: Failure::NotFound })
    }

    #[test]
    fn deletion_that_is_done_is_reported_though_staged_contents_stay() {
        let script = Arc::new(Script::default());
        let keyspace = keyspace(&handle(&script));
        let removed = Reply::Transacted { version: Timestamp(10), answers: Vec::new() };
        script.single.lock().unwrap().extend([Ok(header(5)), Ok(removed)]);
        // The headers of staged contents cannot be read.
        let broken = || (0..16).map(|_| Err(Reason::Closed)).collect();
        script.batches.lock().unwrap().push_back(broken());
        assert_eq!(run(keyspace.blob("b").delete()), Ok(true));
        assert!(script.single.lock().unwrap().is_empty());
        // Where nothing was removed, there is nothing that the error hides.
        script.single.lock().unwrap().push_back(not_found());
        script.batches.lock().unwrap().push_back(broken());
        assert!(run(keyspace.blob("b").delete()).is_err());
    }

    /// A script for a blob of which `chunks` chunks are to be truncated. Two groups of chunks take longer than the deadline, one does not.
    fn pending_truncation(chunks: u64) -> Arc<Script> {
        let script = Arc::new(Script::default());
        script.request_us.store(600_000 / BLOB_TRUNCATES_PARALLEL, Ordering::Relaxed);
        script.single.lock().unwrap().push_back(Ok(pending_header(chunks)));
        *script.otherwise.lock().unwrap() = Some(Ok(Reply::Done { version: Timestamp(10), number: 1 }));
        script
    }

    fn pending_header(chunks: u64) -> Reply {
        header_with(0, chunks << 12)
    }

    /// A keyspace whose transactions truncate one chunk.
    fn long_truncations(script: &Arc<Script>) -> crate::procedures::Keyspace {
        keyspace(&handle_with(script, BlobLimits { transaction_chunks: 1, ..BlobLimits::default() }))
    }

    fn deadline_passed<T>(result: &Result<T, Error>) -> bool {
        matches!(result.as_ref().err().and_then(Error::reason), Some(Reason::Deadline { .. }))
    }

    #[test]
    fn call_that_completes_long_truncation_ends_by_its_deadline_and_next_one_goes_on() {
        let chunks = 2 * BLOB_TRUNCATES_PARALLEL;
        let script = pending_truncation(chunks);
        let keyspace = long_truncations(&script);
        let begun = run(keyspace.blob("b").staged_extension()).map(drop);
        let took_us = script.now.load(Ordering::Relaxed);
        assert!(took_us < 1_001_000, "it took {took_us} us, beyond its deadline");
        assert!(deadline_passed(&begun), "{begun:?}");
        // The second group and the settlement are left. Then comes the settled header.
        let requests = script.requests.load(Ordering::Relaxed);
        let done = || Ok(Reply::Done { version: Timestamp(10), number: 1 });
        let mut answers: VecDeque<_> = (0..=BLOB_TRUNCATES_PARALLEL).map(|_| done()).collect();
        answers.push_front(Ok(pending_header(chunks)));
        answers.push_back(Ok(header(0)));
        *script.single.lock().unwrap() = answers;
        let begun = run(keyspace.blob("b").staged_extension()).map(drop);
        assert!(begun.is_ok(), "{begun:?}");
        let requests = script.requests.load(Ordering::Relaxed) - requests;
        assert_eq!(requests, 1 + BLOB_TRUNCATES_PARALLEL + 1 + 1 + 1);
    }

    #[test]
    fn removal_in_steps_that_another_one_completes_did_not_remove_the_blob() {
        let script = Arc::new(Script::default());
        let done = Reply::Done { version: Timestamp(10), number: 1 };
        script.single.lock().unwrap().extend([Ok(header(3 << 12)), Ok(done), not_found(), not_found()]);
        script.batches.lock().unwrap().push_back((0..16).map(|_| not_found()).collect());
        assert_eq!(run(long_truncations(&script).blob("b").delete()), Ok(false));
        assert!(script.single.lock().unwrap().is_empty());
    }

    #[test]
    fn explicit_truncation_has_a_deadline_for_each_step() {
        let chunks = 2 * BLOB_TRUNCATES_PARALLEL;
        let script = pending_truncation(chunks);
        let done = || Ok(Reply::Done { version: Timestamp(10), number: 1 });
        script.single.lock().unwrap().extend((0..=chunks).map(|_| done()));
        script.single.lock().unwrap().extend([Ok(header(0)), done()]);
        assert_eq!(run(long_truncations(&script).blob("b").truncate(5)), Ok(()));
        assert!(script.now.load(Ordering::Relaxed) > 1_000_000);
    }

    #[test]
    fn listing_leaves_out_blob_that_vanishes_meanwhile() {
        let script = Arc::new(Script::default());
        let keyspace = keyspace(&handle(&script));
        let key = |name: &'static str| crate::ScanKey {
            key: Bytes::from_static(name.as_bytes()),
            partition: zerohop_wire::ids::PartitionId(0),
            record: zerohop_wire::messages::RecordType::Bytes,
            version: Timestamp(1),
            value: None,
        };
        let keys = vec![key("a"), key("b"), key("c")];
        script.single.lock().unwrap().push_back(Ok(Reply::Page { next: Bytes::new(), keys }));
        script.batches.lock().unwrap().push_back(vec![Ok(header(1)), not_found(), Ok(header(1))]);
        let mut list = keyspace.list_blobs("");
        assert_eq!(run(list.next_page()), Ok(Some(vec![Bytes::from("a"), Bytes::from("c")])));
    }
}
