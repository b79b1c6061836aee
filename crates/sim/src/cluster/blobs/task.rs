//! What a client does with a blob: the procedures of `zerohop-client`, and a report of every call and
//! its result. The handle stays the same for a few operations, so that later ones begin with the header
//! that earlier ones have seen.

use std::time::Duration;

use bytes::Bytes;
use zerohop_session::procedures::{
    Blob, BlobError, BlobInfo, ClusterHandle, Error, Keyspace, PutOptions, Transaction, Transform,
};
use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;

use super::contents::{VersionedContents, read_actions, streamed_actions, tail_of};
use crate::cycles::CheckedAction;
use crate::transaction_results::BlobLife;
use crate::workload::blobs::{
    BASE_BYTES, BASE_CHUNKS, BLOBS, BlobChangeKind, BlobOperationPlan, BlobPlace, BlobReadKind, CHUNK_BITS,
    CHUNK_BYTES, MARKED, MARKS, NUMBERS, PutEnd, RECORD_BYTES, RECORDS_MAX, SHARES, attributes, base_bytes,
    chunk_id, header_id, mark_id, mark_reads, name, new_bytes, placed_id, read_attributes, record_bytes,
    size_after, staged_bytes, tail_id, unplaced_id,
};
use crate::workload::tokens::token;
use crate::workload::transactional::KEYSPACES;

/// What a blob operation reports.
#[derive(Debug)]
pub(super) enum BlobReport {
    /// It makes a call that changes this if it succeeds.
    Calls { actions: Vec<CheckedAction>, life: Option<BlobLife> },
    /// The call is about to change this instead.
    Intends(Vec<CheckedAction>),
    /// The next of several calls, with a time of its own, belongs to the same entry.
    Continues,
    /// The call has ended.
    Ended(Result<BlobOutcome, Error>),
    /// The operation does nothing more.
    Over,
}

/// What a call has done and seen.
#[derive(Debug, Default)]
pub(super) struct BlobOutcome {
    /// The name under which it is counted.
    pub(super) case: &'static str,
    /// What it has done and read, if that is not what it intended.
    pub(super) actions: Option<Vec<CheckedAction>>,
    /// The same for the life of the blob.
    pub(super) life: Option<BlobLife>,
    /// What it has seen of all blobs.
    pub(super) names: Vec<(u64, BlobLife)>,
    pub(super) version: Option<Timestamp>,
    /// A result that is impossible.
    pub(super) impossible: Option<String>,
}

/// A blob operation with what it draws before it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlobStep {
    pub(super) plan: BlobOperationPlan,
    /// The mark that it sets.
    pub(super) mark: u32,
    /// How long its client rests afterwards.
    pub(super) rest: Duration,
}

/// Opens the keyspace, and does all steps with one handle. `puts` is the handle to the cluster for puts.
pub(super) async fn run_blob(
    (handle, puts): (ClusterHandle, ClusterHandle),
    steps: Vec<BlobStep>,
    report: impl Fn(BlobReport),
) {
    let keyspaces = (handle.keyspace(KEYSPACES[0]).await, puts.keyspace(KEYSPACES[0]).await);
    let (Ok(keyspace), Ok(puts), Some(first)) = (keyspaces.0, keyspaces.1, steps.first()) else {
        return report(BlobReport::Over);
    };
    let number = first.plan.blob;
    let task = BlobTask {
        handle: &handle,
        keyspace: &keyspace,
        puts: &puts,
        blob: keyspace.blob(name(number)),
        number,
        report: &report,
    };
    for step in steps {
        task.run(step).await;
        if !step.rest.is_zero() {
            handle.sleep(step.rest).await;
        }
    }
    report(BlobReport::Over);
}

struct BlobTask<'k, R> {
    handle: &'k ClusterHandle,
    keyspace: &'k Keyspace,
    puts: &'k Keyspace,
    blob: Blob<'k>,
    number: u64,
    report: &'k R,
}

/// What a transaction on a blob has found.
enum BlobPresence<T> {
    Nothing,
    Unfinished,
    Blob(T),
}

fn done(case: &'static str) -> BlobOutcome {
    BlobOutcome { case, ..BlobOutcome::default() }
}

fn with_actions(case: &'static str, actions: Result<Vec<CheckedAction>, String>) -> BlobOutcome {
    match actions {
        Ok(actions) => BlobOutcome { actions: Some(actions), ..done(case) },
        Err(what) => BlobOutcome { actions: Some(Vec::new()), impossible: Some(what), ..done(case) },
    }
}

impl<R: Fn(BlobReport)> BlobTask<'_, R> {
    async fn run(&self, step: BlobStep) {
        let BlobOperationPlan { kind, value, tokens, .. } = step.plan;
        let is_there = match kind {
            BlobChangeKind::Write => {
                let places: Vec<BlobPlace> = (0..BASE_CHUNKS).map(BlobPlace::Chunk).collect();
                self.write(0, &base_bytes(value), (&places, value), "blobs: writes of all chunks").await
            }
            BlobChangeKind::Poke { chunk } => {
                let places = [BlobPlace::Chunk(chunk)];
                let offset = chunk << CHUNK_BITS;
                self.write(offset, &token(value), (&places, value), "blobs: writes of one chunk").await
            }
            BlobChangeKind::Replace => self.replace(value).await,
            BlobChangeKind::Put { replaces, end } => return self.put(value, (replaces, end)).await,
            BlobChangeKind::Extend => self.extend(value).await,
            BlobChangeKind::Truncate => self.truncate(value).await,
            BlobChangeKind::Share { amount, is_float } => self.share(amount, is_float).await,
            BlobChangeKind::Mark { chunk: Some(chunk) } => self.mark(chunk, step.mark, value).await,
            BlobChangeKind::Mark { chunk: None } => self.mark_both(step.mark).await,
            BlobChangeKind::StageExtension { records } => {
                self.stage_extension(&tokens[..records as usize]).await
            }
            BlobChangeKind::ReadAndChange { cuts: false } => self.read_and_write(value).await,
            BlobChangeKind::ReadAndChange { cuts: true } => self.truncate_tail(value).await,
            BlobChangeKind::Delete => return self.delete().await,
            BlobChangeKind::Read(BlobReadKind::Whole) => return drop(self.read().await),
            BlobChangeKind::Read(BlobReadKind::Stream) => return self.stream().await,
            BlobChangeKind::Read(BlobReadKind::InTransaction) => return self.read_in_transaction().await,
            BlobChangeKind::List => return self.list().await,
        };
        if !is_there {
            self.put(value, (false, PutEnd::Published)).await;
        }
    }

    /// Makes a call and reports it. Returns what it has returned.
    async fn call<T>(
        &self,
        (actions, life): (Vec<CheckedAction>, Option<BlobLife>),
        call: impl Future<Output = Result<T, Error>>,
        outcome: impl FnOnce(&T) -> BlobOutcome,
    ) -> Result<T, Error> {
        (self.report)(BlobReport::Calls { actions, life });
        let result = call.await;
        (self.report)(BlobReport::Ended(match &result {
            Ok(found) => Ok(outcome(found)),
            Err(error) => Err(error.clone()),
        }));
        result
    }

    /// The edition and the last change of the blob, as the handle has seen it last.
    fn seen(&self) -> Option<(u64, u64)> {
        read_attributes(&self.blob.last_seen()?.attributes)
    }

    fn unplaced(&self, place: BlobPlace) -> u64 {
        unplaced_id(self.number, place)
    }

    /// The key of a place that was changed just now.
    fn placed(&self, place: BlobPlace) -> u64 {
        self.seen().map_or_else(|| self.unplaced(place), |seen| placed_id(place, seen))
    }

    async fn write(
        &self,
        offset: u64,
        bytes: &[u8],
        (places, value): (&[BlobPlace], u64),
        case: &'static str,
    ) -> bool {
        let writes = |key: &dyn Fn(BlobPlace) -> u64| -> Vec<CheckedAction> {
            let write = |place| CheckedAction::Write { key: key(place), value, version: None };
            places.iter().copied().map(write).collect()
        };
        let unplaced = writes(&|place| self.unplaced(place));
        let call = self.blob.write_at(offset, bytes);
        let outcome = |(): &()| with_actions(case, Ok(writes(&|place| self.placed(place))));
        !is_absent(&self.call((unplaced, None), call, outcome).await)
    }

    async fn replace(&self, value: u64) -> bool {
        let (bytes, attributes) = (new_bytes(value), attributes(value, value));
        let call = self.blob.replace(&bytes, Some(&attributes));
        let actions = new_contents(self.number, value);
        !is_absent(&self.call((actions, None), call, |()| done("blobs: replacements")).await)
    }

    async fn put(&self, value: u64, (replaces, end): (bool, PutEnd)) {
        let options = PutOptions {
            attributes: Bytes::from(attributes(value, value)),
            chunk_bits: Some(CHUNK_BITS),
            replaces,
        };
        let bytes = new_bytes(value);
        let mut put = self.puts.blob(name(self.number)).put(options);
        let pushed = self.call((Vec::new(), None), put.push(&bytes), |()| done("blobs: bytes pushed")).await;
        if pushed.is_err() {
            if value.is_multiple_of(2) {
                drop(self.call((Vec::new(), None), put.discard(), |()| done("blobs: puts discarded")).await);
            }
            return;
        }
        match end {
            PutEnd::Published => {}
            PutEnd::Discarded => {
                drop(self.call((Vec::new(), None), put.discard(), |()| done("blobs: puts discarded")).await);
                return;
            }
            PutEnd::Abandoned => {
                drop(
                    self.call((Vec::new(), None), async { Ok(()) }, |()| done("blobs: puts abandoned")).await,
                );
                return;
            }
        }
        let case = if replaces { "blobs: puts that replace" } else { "blobs: puts of new blobs" };
        let intended = (new_contents(self.number, value), Some(BlobLife::Put));
        drop(self.call(intended, put.publish(), |_| done(case)).await);
    }

    async fn extend(&self, value: u64) -> bool {
        let known = match self.blob.last_seen() {
            Some(known) => Some(known),
            None => self.blob.stat().await.unwrap_or_default(),
        };
        if known.is_some_and(|known| known.size >= size_after(RECORDS_MAX)) {
            return self.truncate(value).await;
        }
        let unplaced = vec![CheckedAction::Append { key: self.unplaced(BlobPlace::Tail), value }];
        let bytes = record_bytes(value);
        let outcome = |offset: &u64| {
            let seen = self.blob.last_seen();
            let key = self.placed(BlobPlace::Tail);
            let impossible = seen.as_ref().is_some_and(|seen| seen.size != offset + RECORD_BYTES);
            BlobOutcome {
                version: seen.map(|seen| seen.version),
                impossible: impossible.then(|| format!("it adds at {offset}, and ends elsewhere")),
                ..with_actions("blobs: extensions", Ok(vec![CheckedAction::Append { key, value }]))
            }
        };
        !is_absent(&self.call((unplaced, None), self.blob.extend(&bytes), outcome).await)
    }

    /// Calls `work` in a transaction with the metadata of the blob, until it commits.
    async fn transact<T, F>(
        &self,
        work: impl Fn(Transaction, BlobInfo) -> F,
        outcome: impl FnOnce(&T, Timestamp) -> BlobOutcome,
    ) -> bool
    where
        F: Future<Output = Result<T, Error>>,
    {
        let call = self.handle.transaction_with_outcome(|transaction| {
            let work = &work;
            async move {
                match transaction.blob(self.keyspace, name(self.number)).stat().await? {
                    None => Ok(BlobPresence::Nothing),
                    Some(info) if !info.finished => Ok(BlobPresence::Unfinished),
                    Some(info) => work(transaction.clone(), info).await.map(BlobPresence::Blob),
                }
            }
        });
        let outcome = |(found, committed): &(BlobPresence<T>, Option<_>)| match (found, committed) {
            (BlobPresence::Blob(found), Some(committed)) => {
                let committed: &zerohop_session::procedures::CommittedTransaction = committed;
                outcome(found, committed.version())
            }
            (BlobPresence::Nothing, _) => BlobOutcome {
                actions: Some(Vec::new()),
                life: Some(BlobLife::Absent),
                ..done("blobs: found absent")
            },
            _ => BlobOutcome { actions: Some(Vec::new()), ..done("blobs: found unfinished") },
        };
        let result = self.call((Vec::new(), None), call, outcome).await;
        !matches!(result, Ok((BlobPresence::Nothing | BlobPresence::Unfinished, _))) && !is_absent(&result)
    }

    fn intends(&self, actions: &[CheckedAction]) {
        (self.report)(BlobReport::Intends(actions.to_vec()));
    }

    /// Truncates the tail; extends it instead if there is none.
    async fn truncate(&self, value: u64) -> bool {
        let work = |transaction: Transaction, info: BlobInfo| async move {
            let blob = transaction.blob(self.keyspace, name(self.number));
            let (edition, change) = read_attributes(&info.attributes).unwrap_or_default();
            if info.size <= BASE_BYTES {
                let actions = vec![CheckedAction::Append { key: tail_id(change), value }];
                self.intends(&actions);
                blob.extend(record_bytes(value)).await?;
                return Ok((actions, "blobs: extensions"));
            }
            let actions = vec![self.header_write(value)];
            self.intends(&actions);
            blob.truncate(BASE_BYTES).await?;
            blob.set_attributes(&attributes(edition, value)).await?;
            Ok((actions, "blobs: cuts"))
        };
        self.transact(work, committed).await
    }

    /// Reads all of it and truncates the tail in the midst, in one transaction.
    async fn truncate_tail(&self, value: u64) -> bool {
        let work = |transaction: Transaction, info: BlobInfo| async move {
            let blob = transaction.blob(self.keyspace, name(self.number));
            let read = blob.read(0, u64::MAX).await?;
            let (edition, _) = read_attributes(&info.attributes).unwrap_or_default();
            let reads = streamed_actions(self.number, &info, &read);
            let tail = tail_of(self.number, &info, &read).unwrap_or_default();
            if tail.is_empty() {
                self.intends(&[]);
                return Ok((reads, "blobs: reads in transactions"));
            }
            let kept = value as usize % tail.len();
            let mut actions = reads.unwrap_or_default();
            actions.push(self.header_write(value));
            let keep = |old: &u64| CheckedAction::Append { key: tail_id(value), value: *old };
            actions.extend(tail[..kept].iter().map(keep));
            self.intends(&actions);
            blob.truncate(size_after(kept as u64)).await?;
            blob.set_attributes(&attributes(edition, value)).await?;
            Ok((Ok(actions), "blobs: cuts in the midst"))
        };
        self.transact(work, |(actions, case), version| {
            let version = (*case != "blobs: reads in transactions").then_some(version);
            BlobOutcome { version, ..with_actions(case, actions.clone()) }
        })
        .await
    }

    fn header_write(&self, value: u64) -> CheckedAction {
        CheckedAction::Write { key: header_id(self.number), value, version: None }
    }

    /// Moves an amount from one chunk to the other.
    async fn share(&self, amount: i32, is_float: bool) -> bool {
        let work = |transaction: Transaction, _: BlobInfo| async move {
            let blob = transaction.blob(self.keyspace, name(self.number));
            for (chunk, amount) in NUMBERS.zip([amount, -amount]) {
                let offset = chunk << CHUNK_BITS | u64::from(SHARES[usize::from(is_float)]);
                if is_float {
                    blob.transform(Transform::add(f64::from(amount)).at(offset)).await?;
                } else {
                    blob.transform(Transform::add(i64::from(amount)).at(offset)).await?;
                }
            }
            Ok((Vec::new(), "blobs: shares moved"))
        };
        self.transact(work, committed).await
    }

    /// Sets a mark of one chunk.
    async fn mark(&self, chunk: u64, mark: u32, value: u64) -> bool {
        let place = BlobPlace::Mark(chunk, mark);
        let set = |key| CheckedAction::Append { key, value: MARKED };
        let call = self.blob.transform_and_get_old(mark_of(chunk, mark));
        let outcome = |old: &u32| {
            let mut actions = Vec::new();
            if let Some((edition, _)) = self.seen().filter(|_| value.is_multiple_of(2)) {
                actions.extend(mark_reads(edition, chunk, *old));
            }
            actions.push(set(self.placed(place)));
            with_actions("blobs: marks of one chunk", Ok(actions))
        };
        !is_absent(&self.call((vec![set(self.unplaced(place))], None), call, outcome).await)
    }

    /// Sets a mark of both chunks in one transaction.
    async fn mark_both(&self, mark: u32) -> bool {
        let work = |transaction: Transaction, info: BlobInfo| async move {
            let blob = transaction.blob(self.keyspace, name(self.number));
            let (edition, _) = read_attributes(&info.attributes).unwrap_or_default();
            let set = |chunk| CheckedAction::Append { key: mark_id(edition, chunk, mark), value: MARKED };
            let actions: Vec<CheckedAction> = NUMBERS.map(set).collect();
            self.intends(&actions);
            for chunk in NUMBERS {
                blob.transform(mark_of(chunk, mark)).await?;
            }
            Ok((actions, "blobs: marks of both chunks"))
        };
        self.transact(work, committed).await
    }

    async fn stage_extension(&self, tokens: &[u64]) -> bool {
        let begun = self
            .call((Vec::new(), None), self.blob.staged_extension(), |_| done("blobs: fillings begun"))
            .await;
        let is_there = !is_absent(&begun);
        let Ok(mut extension) = begun else { return is_there };
        let Some((_, change)) = self.seen() else { return is_there };
        let limit = size_after(RECORDS_MAX);
        if extension.position() + tokens.len() as u64 * RECORD_BYTES > limit
            || extension.push(&staged_bytes(tokens)).await.is_err()
        {
            // The next writer removes what was staged.
            return true;
        }
        let append = |value: &u64| CheckedAction::Append { key: tail_id(change), value: *value };
        let actions = tokens.iter().map(append).collect();
        drop(self.call((actions, None), extension.publish(), |_| done("blobs: fillings published")).await);
        true
    }

    /// Reads all of it, and returns what it has read.
    async fn read(&self) -> Result<VersionedContents, Error> {
        let call = async {
            let (bytes, seen) = self.blob.read_with_version(0, u64::MAX).await?;
            Ok(VersionedContents { bytes, seen, info: self.blob.last_seen() })
        };
        let outcome = |read: &VersionedContents| BlobOutcome {
            life: read.info.as_ref().map(|info| BlobLife::Seen(info.id.0)),
            ..with_actions("blobs: reads", read_actions(self.number, read))
        };
        self.call((Vec::new(), None), call, outcome).await
    }

    /// Reads all of it, and writes it if nothing has changed since.
    async fn read_and_write(&self, value: u64) -> bool {
        let read = self.read().await;
        let Ok(read) = read else { return !is_absent(&read) };
        let (Ok(mut actions), Some(info)) = (read_actions(self.number, &read), &read.info) else {
            return true;
        };
        let Some((edition, _)) = read_attributes(&info.attributes) else { return true };
        let write = |chunk| CheckedAction::Write { key: chunk_id(edition, chunk), value, version: None };
        actions.extend((0..BASE_CHUNKS).map(write));
        let bytes = base_bytes(value);
        let call = self.blob.write_at_if(&read.seen, 0, &bytes);
        drop(self.call((actions, None), call, |()| done("blobs: writes of what has not changed")).await);
        true
    }

    async fn stream(&self) {
        let call = async {
            let mut stream = self.blob.read_at(0, u64::MAX).await?;
            let mut bytes = Vec::new();
            loop {
                (self.report)(BlobReport::Continues);
                let Some(piece) = stream.next_piece().await? else { break };
                bytes.extend_from_slice(&piece);
            }
            Ok((stream.info(), bytes))
        };
        let outcome = |(info, bytes): &(BlobInfo, Vec<u8>)| BlobOutcome {
            life: Some(BlobLife::Seen(info.id.0)),
            ..with_actions("blobs: streams", streamed_actions(self.number, info, bytes))
        };
        drop(self.call((Vec::new(), None), call, outcome).await);
    }

    async fn read_in_transaction(&self) {
        let work = |transaction: Transaction, info: BlobInfo| async move {
            let read = transaction.blob(self.keyspace, name(self.number)).read(0, u64::MAX).await?;
            Ok((info, read))
        };
        let outcome = |(info, read): &(BlobInfo, Bytes), _| BlobOutcome {
            life: Some(BlobLife::Seen(info.id.0)),
            ..with_actions("blobs: reads in transactions", streamed_actions(self.number, info, read))
        };
        self.transact(work, outcome).await;
    }

    async fn delete(&self) {
        let outcome = |was_there: &bool| match was_there {
            true => done("blobs: deletions"),
            false => BlobOutcome { life: Some(BlobLife::Absent), ..done("blobs: found absent") },
        };
        drop(self.call((Vec::new(), Some(BlobLife::Removed)), self.blob.delete(), outcome).await);
    }

    async fn list(&self) {
        let call = async {
            let (mut list, mut names) = (self.keyspace.list_blobs("blob-"), Vec::new());
            while let Some(page) = list.next_page().await? {
                (self.report)(BlobReport::Continues);
                names.extend(page);
            }
            Ok(names)
        };
        let outcome = |names: &Vec<Bytes>| {
            let lives =
                (0..BLOBS).map(|blob| match names.iter().filter(|one| ***one == name(blob)[..]).count() {
                    0 => (blob, BlobLife::Absent),
                    _ => (blob, BlobLife::Listed),
                });
            let is_well = names.windows(2).all(|pair| pair[0] < pair[1])
                && names.iter().all(|one| (0..BLOBS).any(|blob| **one == name(blob)[..]));
            BlobOutcome {
                names: lives.collect(),
                impossible: (!is_well).then(|| format!("listed: {names:?}")),
                ..done("blobs: listings")
            }
        };
        drop(self.call((Vec::new(), None), call, outcome).await);
    }
}

/// The outcome of a transaction that has done what it intended.
fn committed((actions, case): &(Vec<CheckedAction>, &'static str), version: Timestamp) -> BlobOutcome {
    BlobOutcome { version: Some(version), ..with_actions(case, Ok(actions.clone())) }
}

/// The writes of new contents.
fn new_contents(blob: u64, value: u64) -> Vec<CheckedAction> {
    let keys = std::iter::once(header_id(blob)).chain((0..BASE_CHUNKS).map(|chunk| chunk_id(value, chunk)));
    keys.map(|key| CheckedAction::Write { key, value, version: None }).collect()
}

fn mark_of(chunk: u64, mark: u32) -> Transform<u32> {
    Transform::xor(1_u32 << mark).at(chunk * CHUNK_BYTES + u64::from(MARKS))
}

/// Whether there is no blob, or none that is finished.
pub(super) fn is_absent<T>(result: &Result<T, Error>) -> bool {
    match result {
        Err(Error::Blob { why: BlobError::Absent | BlobError::Unfinished, .. }) => true,
        Err(error) => matches!(error.failure(), Some(Failure::NotFound)),
        Ok(_) => false,
    }
}
