//! The shares of tokens in an instance's limited resources, so that one token leaves some to others: snapshots of a partition, and sessions. A
//! client with the secret has no share, and may use what tokens leave.

use std::collections::BTreeMap;

use zerohop_placement::ClusterMap;
use zerohop_wire::auth::Access;
use zerohop_wire::ids::{KeyspaceId, PartitionId, SessionId, SnapshotId};
use zerohop_wire::messages::{
    Query, ReadChanges, RecordOperation, RecordRead, SnapshotQuery, SnapshotRequest,
};
use zerohop_wire::{BadRequestReason, Envelope, Failure, Message};

use super::limits::{
    TOKEN_SESSION_IDLE_MS, TOKEN_SESSIONS_MAX, TOKEN_SNAPSHOTS_MAX, TOKENS_SNAPSHOTS_MAX, WAIT_BYTES,
};

/// A snapshot of a token.
#[derive(Clone, Copy, Debug)]
struct TokenSnapshot {
    token: u64,
    /// The snapshot expires at this time, unless it is renewed.
    until_ms: u64,
    /// The snapshot expires at this time in every case.
    ends_ms: u64,
}

/// The shares; see the module. Times are in milliseconds of the reactor.
#[derive(Debug, Default)]
pub(super) struct TokenShares {
    snapshots: BTreeMap<(KeyspaceId, PartitionId), BTreeMap<SnapshotId, TokenSnapshot>>,
    /// The sessions in which a token has written, with the time of the last write.
    sessions: BTreeMap<u64, BTreeMap<SessionId, u64>>,
}

impl TokenShares {
    /// Counts the resources that a request would use.
    ///
    /// # Errors
    /// The token has used its share.
    pub(super) fn consume(
        &mut self,
        access: Access,
        envelope: &Envelope,
        message: &Message<'_>,
        now_ms: u64,
    ) -> Result<(), Failure<'static>> {
        let Access::Token(token) = access else { return Ok(()) };
        let session = match message {
            Message::Snapshot(snapshot) => return self.snapshot(token, envelope, snapshot, now_ms),
            Message::Write { stamp, .. } => stamp.session,
            Message::Batch(batch) => batch.stamp.session,
            Message::Transact(transact) => transact.stamp.session,
            Message::Stage(stage) => stage.stamp.session,
            _ => return Ok(()),
        };
        if session == SessionId::default() {
            return Ok(());
        }
        let sessions = self.sessions.entry(token).or_default();
        if let Some(last_ms) = sessions.get_mut(&session) {
            *last_ms = now_ms;
            return Ok(());
        }
        if sessions.len() >= TOKEN_SESSIONS_MAX {
            sessions.retain(|_, last_ms| now_ms - *last_ms < TOKEN_SESSION_IDLE_MS);
        }
        if sessions.len() >= TOKEN_SESSIONS_MAX {
            return Err(BadRequestReason::TokenSessions.into());
        }
        sessions.insert(session, now_ms);
        Ok(())
    }

    fn snapshot(
        &mut self,
        token: u64,
        envelope: &Envelope,
        snapshot: &SnapshotRequest<'_>,
        now_ms: u64,
    ) -> Result<(), Failure<'static>> {
        let of_partition = self.snapshots.entry((envelope.keyspace, envelope.partition)).or_default();
        of_partition.retain(|_, opened| now_ms < opened.until_ms.min(opened.ends_ms));
        match snapshot.request {
            SnapshotQuery::Open { lease_ms, age_ms } => {
                let until_ms = now_ms.saturating_add(u64::from(lease_ms));
                let ends_ms = now_ms.saturating_add(age_ms);
                let is_new = !of_partition.contains_key(&snapshot.id);
                // Partitions count the snapshots of streams apart, with the same limit.
                let is_like = |id: &SnapshotId| id.is_for_stream() == snapshot.id.is_for_stream();
                let like = || of_partition.iter().filter(|(id, _)| is_like(id));
                let own = like().filter(|(_, opened)| opened.token == token).count();
                if is_new && (own >= TOKEN_SNAPSHOTS_MAX || like().count() >= TOKENS_SNAPSHOTS_MAX) {
                    return Err(BadRequestReason::TokenSnapshots.into());
                }
                of_partition
                    .entry(snapshot.id)
                    .or_insert(TokenSnapshot { token, until_ms, ends_ms })
                    .until_ms = until_ms;
            }
            SnapshotQuery::Renew { lease_ms } => {
                if let Some(opened) = of_partition.get_mut(&snapshot.id) {
                    opened.until_ms = now_ms.saturating_add(u64::from(lease_ms));
                }
            }
            SnapshotQuery::Close => drop(of_partition.remove(&snapshot.id)),
            SnapshotQuery::Read { .. } | SnapshotQuery::Scan { .. } | SnapshotQuery::Chunks { .. } => {}
        }
        if of_partition.is_empty() {
            self.snapshots.remove(&(envelope.keyspace, envelope.partition));
        }
        Ok(())
    }

    /// Follows a change of the map: keyspaces and tokens may be gone, and tokens may have expired.
    pub(super) fn follow(&mut self, map: &ClusterMap) {
        self.snapshots.retain(|(keyspace, _), _| map.keyspace(*keyspace).is_some());
        self.sessions.retain(|token, _| map.token(*token).is_ok());
    }
}

/// The resources of a request that waits for records or changes: bytes, and number of waits. `None`: it does not wait.
pub(super) fn waits(message: &Message<'_>) -> Option<(usize, usize)> {
    match message {
        Message::Read { read, .. } => wait(read).map(|bytes| (bytes, 1)),
        Message::Batch(batch) => {
            let waits = batch.operations.iter().filter_map(|operation| match operation {
                RecordOperation::Read(read) => wait(&read),
                RecordOperation::Write(_) => None,
            });
            let (bytes, count) = waits.fold((0, 0), |(all, count), bytes| (all + bytes, count + 1));
            (count > 0).then_some((bytes, count))
        }
        Message::Changes(changes) if changes.wait_ms > 0 => {
            let ReadChanges { from, to, prefix, .. } = changes;
            Some((WAIT_BYTES + from.len() + to.len() + prefix.len(), 1))
        }
        _ => None,
    }
}

fn wait(read: &RecordRead<'_>) -> Option<usize> {
    let is_wait = matches!(read.query, Query::Wait(_) | Query::UpdateLock(_));
    is_wait.then(|| WAIT_BYTES + 2 * read.key.len() + read.query.payload_bytes())
}

#[cfg(test)]
mod tests {
    use zerohop_wire::ids::{PartitionEpoch, RequestId, Sequence, Timestamp};
    use zerohop_wire::messages::{Expiry, Insert, RecordWrite, Stamp, WriteChange};

    use super::*;

    const ROBOT: Access = Access::Token(7);

    fn at(partition: u32) -> Envelope {
        Envelope {
            request: RequestId(1),
            keyspace: KeyspaceId(1),
            partition: PartitionId(partition),
            partition_epoch: PartitionEpoch(1),
            ..Envelope::default()
        }
    }

    fn of(id: u128, query: SnapshotQuery<'static>) -> Message<'static> {
        Message::Snapshot(SnapshotRequest { seen: Timestamp::ZERO, id: SnapshotId(id), request: query })
    }

    const OPEN: SnapshotQuery<'static> = SnapshotQuery::Open { lease_ms: 1000, age_ms: 5000 };

    #[test]
    fn snapshots_are_limited_per_token_and_over_all_tokens() {
        let mut shares = TokenShares::default();
        let mut query = |access, partition, id, query, now_ms| {
            shares.consume(access, &at(partition), &of(id, query), now_ms)
        };
        let full = Err(BadRequestReason::TokenSnapshots.into());
        for id in 0..TOKEN_SNAPSHOTS_MAX as u128 {
            assert_eq!(query(ROBOT, 1, id, OPEN, 0), Ok(()));
        }
        assert_eq!(query(ROBOT, 1, 99, OPEN, 0), full);
        assert_eq!(
            query(ROBOT, 1, SnapshotId::for_stream(1).0, OPEN, 0),
            Ok(()),
            "a stream is counted apart"
        );
        assert_eq!(query(ROBOT, 1, 3, OPEN, 0), Ok(()), "it is open already");
        assert_eq!((query(ROBOT, 2, 99, OPEN, 0), query(Access::All, 1, 98, OPEN, 0)), (Ok(()), Ok(())));
        assert_eq!(query(ROBOT, 1, 0, SnapshotQuery::Close, 0), Ok(()));
        assert_eq!((query(ROBOT, 1, 99, OPEN, 0), query(ROBOT, 1, 100, OPEN, 0)), (Ok(()), full.clone()));
        // All but one expire with their lease, and that one at its maximum age.
        assert_eq!(query(ROBOT, 1, 1, SnapshotQuery::Renew { lease_ms: 9000 }, 999), Ok(()));
        for id in 200..199 + TOKEN_SNAPSHOTS_MAX as u128 {
            assert_eq!(query(ROBOT, 1, id, OPEN, 4500), Ok(()));
        }
        assert_eq!(
            (query(ROBOT, 1, 300, OPEN, 4999), query(ROBOT, 1, 300, OPEN, 5000)),
            (full.clone(), Ok(()))
        );
        for token in 8.. {
            let opened = (0..TOKEN_SNAPSHOTS_MAX as u128)
                .filter(|id| query(Access::Token(token), 3, u128::from(token) * 100 + id, OPEN, 0).is_ok());
            if opened.count() == 0 {
                assert_eq!((token - 8) as usize * TOKEN_SNAPSHOTS_MAX, TOKENS_SNAPSHOTS_MAX);
                break;
            }
        }
    }

    #[test]
    fn a_request_for_changes_counts_as_a_wait_if_it_waits() {
        let changes = ReadChanges { changes_max: 1, prefix: b"run-", ..ReadChanges::default() };
        assert_eq!(waits(&Message::Changes(changes)), None);
        let changes = ReadChanges { wait_ms: 1, ..changes };
        assert_eq!(waits(&Message::Changes(changes)), Some((WAIT_BYTES + 4, 1)));
    }

    #[test]
    fn token_session_limit_evicts_idle_sessions() {
        let mut shares = TokenShares::default();
        let change = WriteChange::Insert(Insert { value: b"v", expiry: Expiry::Never });
        let write = RecordWrite { key: b"k", condition: Default::default(), change };
        let mut write = |nonce, now_ms| {
            let session = SessionId { issued: Timestamp(1), nonce };
            let stamp = Stamp { session, sequence: Sequence(1), ..Stamp::default() };
            shares.consume(ROBOT, &at(1), &Message::Write { stamp, write }, now_ms)
        };
        assert!((0..TOKEN_SESSIONS_MAX as u64).all(|nonce| write(nonce, 0).is_ok()));
        assert_eq!(write(u64::MAX, 1), Err(BadRequestReason::TokenSessions.into()));
        assert_eq!(write(0, TOKEN_SESSION_IDLE_MS - 1), Ok(()), "a session that it has goes on");
        assert_eq!(write(u64::MAX, TOKEN_SESSION_IDLE_MS), Ok(()));
    }
}
