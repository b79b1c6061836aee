//! The clients' comparisons of copies: now and then a client has the members of a partition compare
//! all contents, hash range by hash range, while faults occur. The members have the same contents
//! whatever the primary and its changes, so no comparison may report a difference.

use std::collections::BTreeMap;

use zerohop_base::random::Random;
use zerohop_placement::PartitionCount;
use zerohop_session::{ComparedSlice, Reply, SessionError, SessionRequest};
use zerohop_wire::ids::{KeyspaceId, PartitionId};

use super::SimulatedCluster;
use crate::streams::Draw;

const MS: u64 = 1_000;

/// Operations of a session with tokens from here on are comparisons.
pub(super) const COMPARES_FROM: usize = 1 << 44;

/// One of so many calls starts one.
const OF_CALLS: u64 = 150;

/// The time limit of one hash range.
const LIMIT_US: u64 = 8_000 * MS;

/// The comparisons of all clients that have not ended.
#[derive(Debug)]
pub(super) struct Compares {
    random: Random,
    open: BTreeMap<usize, Comparison>,
    next: usize,
}

#[derive(Clone, Copy, Debug)]
struct Comparison {
    client: usize,
    keyspace: KeyspaceId,
    slice: (PartitionId, PartitionCount),
    /// Start of the hash range that is compared.
    from: u32,
    /// The lowest number of copies in any hash range.
    copies: u32,
}

impl Compares {
    pub(super) fn new(random: Random) -> Compares {
        Compares { random, open: BTreeMap::new(), next: 0 }
    }

    /// A client dies.
    pub(super) fn drop_client(&mut self, client: usize) {
        self.open.retain(|_, one| one.client != client);
    }
}

impl SimulatedCluster {
    /// A client may start a comparison of a partition, beside its other work.
    pub(super) fn begins_compare(&mut self, client: usize) {
        let now = self.now();
        let random = &mut self.compares.random;
        if !random.chance(1, OF_CALLS) {
            return;
        }
        let live: Vec<KeyspaceId> = self.watch.live(now).collect();
        if live.is_empty() {
            return;
        }
        let keyspace = *random.pick(&live);
        let Some(partitions) = self.watch.map.keyspace(keyspace).map(|known| known.config().partitions)
        else {
            return;
        };
        let partition = PartitionId(random.below(u64::from(partitions.get())) as u32);
        let slice = (partition, partitions);
        let number = self.compares.next;
        self.compares.next += 1;
        self.trace.record(now, format_args!("c{client} has {keyspace}/{partition} compared, #{number}"));
        self.compares.open.insert(number, Comparison { client, keyspace, slice, from: 0, copies: u32::MAX });
        self.send_compare(number);
    }

    fn send_compare(&mut self, number: usize) {
        let now = self.now();
        let Some(&Comparison { client, keyspace, slice, from, .. }) = self.compares.open.get(&number) else {
            return;
        };
        let request = SessionRequest::compare(keyspace, slice, from, LIMIT_US);
        self.clients[client].session.submit(now, request, COMPARES_FROM + number);
        let soon = self.streams.schedule.below(20);
        self.schedule_client(client, now.after_us(soon));
    }

    /// A hash range has been compared, or the comparison has failed.
    pub(super) fn handle_compare_result(&mut self, token: usize, result: Result<Reply, SessionError>) {
        let number = token - COMPARES_FROM;
        let Some(one) = self.compares.open.get_mut(&number) else { return };
        let Ok(Reply::Compared(ComparedSlice { next, copies, differing, .. })) = result else {
            self.compares.open.remove(&number);
            return self.coverage.blob("comparisons that failed");
        };
        one.copies = one.copies.min(copies);
        let Comparison { keyspace, slice: (partition, _), from, copies, .. } = *one;
        one.from = next;
        if !differing.is_empty() {
            let what = format!("{keyspace}/{partition}: {differing:?} are told to differ, from {from} on");
            self.record_violation("I6", what);
        }
        if next != 0 && next <= from {
            self.record_violation(
                "progress",
                format!("{keyspace}/{partition}: {next} follows {from} in a comparison"),
            );
        }
        if next > from {
            return self.send_compare(number);
        }
        self.compares.open.remove(&number);
        self.coverage.blob(match copies {
            0 | 1 => "comparisons of one copy",
            _ => "comparisons of several copies",
        });
    }
}
