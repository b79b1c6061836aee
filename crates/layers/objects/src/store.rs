//! The store below the procedures, as asynchronous calls, and the loop that drives a procedure over it.

use std::future::Future;

use crate::error::ObjectError;
use crate::ids::BodyId;
use crate::keys::RecordKey;
use crate::procedure::{BodyDeletion, Effect, Event, Procedure, Step, Version, VersionedRecord, Write};

/// The records of a page of a scan, in the order of keys, and where the scan continues.
pub type StorePage = (Vec<(RecordKey, Vec<u8>)>, Option<RecordKey>);

/// Writes one body, whose blob appears with the first bytes or at the end. If the writer is dropped before the end, the sweep
/// deletes what is there.
pub trait BodyWriter: Send {
    /// Adds bytes to the end. They are durable after [`finish`](Self::finish).
    fn extend(&mut self, bytes: Vec<u8>) -> impl Future<Output = Result<(), ObjectError>> + Send;

    /// Ends the body.
    fn finish(self) -> impl Future<Output = Result<(), ObjectError>> + Send;
}

/// One ordered keyspace for records, and blobs for bodies.
pub trait Store: Send + Sync {
    /// Writes a body.
    type Writer: BodyWriter;

    /// Milliseconds since 1970.
    fn now(&self) -> u64;

    /// Random bytes, for ids.
    fn random(&self) -> [u8; 16];

    /// Reads keys.
    fn read(
        &self,
        keys: Vec<RecordKey>,
    ) -> impl Future<Output = Result<Vec<Option<VersionedRecord>>, ObjectError>> + Send;

    /// Commits `writes` if each key of `conditions` still has its version, or is still absent. Result: whether they hold.
    fn transact(
        &self,
        conditions: Vec<(RecordKey, Option<Version>)>,
        writes: Vec<Write>,
    ) -> impl Future<Output = Result<bool, ObjectError>> + Send;

    /// At most `limit` records from `from` on, below `to`, and where the scan continues.
    fn scan(
        &self,
        from: RecordKey,
        to: RecordKey,
        limit: usize,
    ) -> impl Future<Output = Result<StorePage, ObjectError>> + Send;

    /// The writer of a body whose blob does not exist yet.
    fn write_body(&self, body: BodyId) -> Self::Writer;

    /// Exactly `length` bytes of a body from `offset` on.
    fn read_body(
        &self,
        body: BodyId,
        offset: u64,
        length: u64,
    ) -> impl Future<Output = Result<Vec<u8>, ObjectError>> + Send;

    /// Deletes the blob of a body, finished or not. Success if there is none.
    fn delete_body(&self, body: BodyId) -> impl Future<Output = Result<(), ObjectError>> + Send;
}

/// Drives a procedure to its end.
///
/// # Errors
/// Those of the procedure.
pub async fn run<S: Store, P: Procedure>(store: &S, mut procedure: P) -> Result<P::Output, ObjectError> {
    let mut event = Event::Start;
    loop {
        let effect = match procedure.step(store.now(), event) {
            Step::Done(result) => return result,
            Step::Effect(effect) => effect,
        };
        let outcome = match effect {
            Effect::Read(keys) => store.read(keys).await.map(Event::Values),
            Effect::Transact { conditions, writes, additions } => {
                debug_assert!(additions.is_empty(), "procedures of objects count nothing");
                let committed = store.transact(conditions, writes).await;
                committed.map(|committed| if committed { Event::Committed } else { Event::Conflict })
            }
            Effect::Scan { from, to, limit, .. } => {
                store.scan(from, to, limit).await.map(|(entries, next)| Event::Page { entries, next })
            }
            Effect::Own(BodyDeletion(body)) => store.delete_body(body).await.map(|()| Event::OwnDone),
        };
        event = outcome.unwrap_or_else(Event::Failed);
    }
}
