//! Two instances that share a partition, each with its thread and disk, over real sockets; the test acts as the control group.

use std::time::Duration;

use zerohop_placement::{Durability, KeyspaceConfig, MapChange, MapDelta, PartitionCount, ReplicaGroup};
use zerohop_wire::ids::{KeyspaceId, PartitionEpoch, PartitionId, Timestamp};
use zerohop_wire::messages::{
    Condition, Expiry, Insert, Outcome, Query, RecordRead as Lookup, RecordWrite as Store, Stamp,
};

use super::*;

const KEYSPACE: KeyspaceId = KeyspaceId(9);

struct Pair {
    roots: [tempfile::TempDir; 2],
    map: ClusterMap,
    benches: [Option<ServiceBench>; 2],
}

/// The partition's group: the index of its primary, the epoch, and whether the other is in sync or a follower.
fn group(epoch: u64, primary: usize, is_in_sync: bool) -> ReplicaGroup {
    let (primary, other) = (InstanceId(primary as u32 + 1), InstanceId(2 - primary as u32));
    let (in_sync, followers) = if is_in_sync { (vec![other], vec![]) } else { (vec![], vec![other]) };
    ReplicaGroup { in_sync, followers, ..ReplicaGroup::of_one(PartitionEpoch(epoch), primary) }
}

impl Pair {
    fn start() -> Pair {
        let drivers = [listen(), listen()];
        let at = |place: usize| drivers[place].local_address().unwrap();
        let map = ClusterMap::of_one_node(node(1, 7, at(0)), 1).unwrap();
        let config = KeyspaceConfig {
            durability: Durability::Sync,
            partitions: PartitionCount::new(1).unwrap(),
            replicas: 2,
            min_in_sync: 1,
            ..KeyspaceConfig::new("shared".parse().unwrap(), 3)
        };
        let groups = vec![group(1, 0, true)];
        let changes = vec![
            MapChange::DropKeyspace(map.keyspaces().next().unwrap().0),
            MapChange::PutNode(node(2, 8, at(1))),
            MapChange::CreateKeyspace { id: KEYSPACE, config, groups: groups.into() },
        ];
        let map = map.apply(&MapDelta { from: map.epoch(), to: map.epoch().next(), changes }).unwrap();
        let roots = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [first, second] = drivers;
        let start = |place: usize, driver| {
            let who = (place as u32 + 1, place as u64 + 7);
            Some(ServiceBench::start_in(&map, who, driver, Some(roots[place].path().to_owned()), 1))
        };
        let benches = [start(0, first), start(1, second)];
        Pair { roots, map, benches }
    }

    /// Applies a decision of the control group.
    fn decide(&mut self, changes: Vec<MapChange>) {
        let delta = MapDelta { from: self.map.epoch(), to: self.map.epoch().next(), changes };
        self.map = self.map.apply(&delta).unwrap();
        for bench in self.benches.iter().flatten() {
            let (done, answer) = tokio::sync::oneshot::channel();
            bench.mailbox.leave(InstanceNotice::Map { delta: Arc::new(delta.clone()), done }).unwrap();
            answer.blocking_recv().unwrap().unwrap();
        }
    }

    fn regroup(&mut self, group: ReplicaGroup) {
        self.decide(vec![MapChange::SetGroup { keyspace: KEYSPACE, partition: PartitionId(0), group }]);
    }

    fn stop(&mut self, place: usize) {
        let bench = self.benches[place].take().unwrap();
        bench.mailbox.leave(InstanceNotice::Stop).unwrap();
        bench.end().unwrap();
    }

    fn bench(&self, place: usize) -> &ServiceBench {
        self.benches[place].as_ref().unwrap()
    }

    fn figures(&self, place: usize) -> Box<Figures> {
        let (requester, answer) = tokio::sync::oneshot::channel();
        self.bench(place)
            .mailbox
            .leave(InstanceNotice::Figures { records_waits: false, reply_to: requester })
            .unwrap();
        answer.blocking_recv().unwrap()
    }

    /// Repeats a request until the answer is not that the group is unsettled.
    fn request_until_settled(
        &self,
        place: usize,
        message: &Message<'_>,
    ) -> Result<Option<Vec<u8>>, Failure<'static>> {
        let mut last = Failure::NotFound;
        for _ in 0..100 {
            match self.request_once(place, message, Duration::from_secs(5)).expect("it answers") {
                Err(failure @ (Failure::Unavailable { .. } | Failure::Busy { .. })) => last = failure,
                answer => return answer,
            }
            #[expect(clippy::disallowed_methods, reason = "a client that asks again later")]
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(last)
    }

    /// `None`: there was no answer in time.
    fn request_once(
        &self,
        place: usize,
        message: &Message<'_>,
        wait: Duration,
    ) -> Option<Result<Option<Vec<u8>>, Failure<'static>>> {
        let mut stream = self.bench(place).connect();
        stream.set_read_timeout(Some(wait)).unwrap();
        let epoch = self.map.keyspace(KEYSPACE).unwrap().group(PartitionId(0)).unwrap().epoch;
        let envelope = Envelope {
            request: RequestId(2),
            keyspace: KEYSPACE,
            partition_epoch: epoch,
            time_out_ms: 4_000,
            ..Envelope::default()
        };
        let mut bytes = Vec::new();
        Encoder::newest_for(message).encode(&envelope, message, &mut bytes).unwrap();
        stream.write_all(&bytes).unwrap();
        let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
        loop {
            let mut at = 0;
            while let DecodeResult::Frame { frame, used } =
                Decoder::with_version(super::version_of(&bytes[at..]), Features::default())
                    .decode(&bytes[at..])
            {
                at += used;
                if frame.envelope.request == RequestId(2) {
                    let mut expanded = Vec::new();
                    return Some(match frame.message(&mut expanded).unwrap() {
                        Message::Answer(Ok(Outcome::Value { bytes, .. })) => Ok(Some(bytes.to_vec())),
                        Message::Answer(Ok(_)) => Ok(None),
                        Message::Answer(Err(failure)) => Err(failure.into_owned()),
                        other => panic!("{other:?}"),
                    });
                }
            }
            match stream.read(&mut chunk) {
                Ok(read) if read > 0 => bytes.extend_from_slice(&chunk[..read]),
                _ => return None,
            }
        }
    }
}

fn store(value: &[u8]) -> Message<'_> {
    let change = zerohop_wire::messages::WriteChange::Insert(Insert { value, expiry: Expiry::Never });
    let write = Store { key: b"k", condition: Condition::Always, change };
    Message::Write { stamp: Stamp::default(), write }
}

fn lookup() -> Message<'static> {
    Message::Read { seen: Timestamp::ZERO, read: Lookup { key: b"k", query: Query::Lookup } }
}

#[test]
fn failover_serves_acknowledged_writes_and_restarted_node_follows() {
    let mut pair = Pair::start();
    assert_eq!(pair.request_until_settled(0, &store(b"first")), Ok(None));
    assert_eq!(pair.request_until_settled(0, &lookup()), Ok(Some(b"first".to_vec())));
    let figures = [0, 1].map(|place| pair.figures(place));
    assert!(figures.iter().all(|figures| figures.links == 1 && figures.counters.peer_messages > 0));
    assert!(figures.iter().all(|figures| figures.counters.connected == 1), "one connection each way");

    // The first instance stops; the second is promoted, as the only in-sync replica.
    pair.stop(0);
    pair.regroup(group(2, 1, false));
    assert_eq!(pair.request_until_settled(1, &lookup()), Ok(Some(b"first".to_vec())));
    assert_eq!(pair.request_until_settled(1, &store(b"second")), Ok(None));

    // The first instance starts again, at another address and with a new incarnation; it follows, is admitted, and takes over.
    let driver = listen();
    let again = node(1, 70, driver.local_address().unwrap());
    pair.decide(vec![
        MapChange::PutNode(again),
        MapChange::SetGroup { keyspace: KEYSPACE, partition: PartitionId(0), group: group(3, 1, false) },
    ]);
    let root = pair.roots[0].path().to_owned();
    pair.benches[0] = Some(ServiceBench::start_in(&pair.map, (1, 70), driver, Some(root), 1));
    pair.regroup(group(4, 1, true));
    assert_eq!(pair.request_until_settled(1, &store(b"third")), Ok(None), "the other must hold it");
    pair.regroup(group(5, 0, true));
    assert_eq!(pair.request_until_settled(0, &lookup()), Ok(Some(b"third".to_vec())));
    pair.stop(1);
    pair.stop(0);
}

#[test]
fn no_acknowledgement_while_an_in_sync_replica_is_missing() {
    let mut pair = Pair::start();
    assert_eq!(pair.request_until_settled(0, &store(b"first")), Ok(None));
    pair.stop(1);
    let answer = pair.request_once(0, &store(b"second"), Duration::from_millis(900));
    assert!(!matches!(answer, Some(Ok(_))), "{answer:?}");
    // The other instance is gone: this one tries to connect again and again, with growing pauses.
    assert!(pair.figures(0).links == 0);
    pair.stop(0);
}
