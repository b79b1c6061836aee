//! Pages of scans, which wait for transactions that may change the keys that they show.

use zerohop_wire::messages::{ChunkList, Scan};

use super::*;

/// An atomic batch that lists the keys of the first page and counts the records, whatever the result.
struct ListUnit;

impl Program for ListUnit {
    fn run<D: Disk>(
        &mut self,
        unit: &mut Unit<'_, D>,
        reply: &mut Vec<u8>,
    ) -> Result<bool, Failure<'static>> {
        let mut keys = Vec::new();
        let listed = unit.scan(0, &mut |key| keys.push(String::from_utf8_lossy(key).into_owned()));
        reply.extend_from_slice(format!("{:?} {:?} {keys:?}", listed.is_ok(), unit.count()).as_bytes());
        Ok(false)
    }
}

impl InstanceNetwork {
    /// Runs a batch over all records of the partition of a key.
    fn list(&mut self, key: &str) -> Result<String, Failure<'static>> {
        let (holder, partition) = (self.holder(key), self.partition(key));
        let InstanceBench { instance, now, sent, .. } = &mut self.benches[holder];
        let to = Token { connection: 7, request: RequestId(1 << 40) };
        let (keyspace, mut reply) = ((KeyspaceId(KEYSPACE), partition), Vec::new());
        instance.run(*now, to, keyspace, (&mut ListUnit, &mut reply), sent)?;
        Ok(String::from_utf8_lossy(&reply).into_owned())
    }

    /// Requests the first page of the partition of a key.
    fn scan(&mut self, key: &str, blobs: bool) -> (usize, u64) {
        let holder = self.holder(key);
        let envelope = self.benches[holder].envelope(KEYSPACE, key);
        let scan = Scan {
            seen: Timestamp::ZERO,
            cursor: b"",
            prefix: b"",
            keys_max: 10,
            blobs,
            range: Default::default(),
        };
        (holder, self.benches[holder].send_request(envelope, &Message::Scan(scan)))
    }

    /// Requests the chunks of a blob in the partition of a key.
    fn list_chunks(&mut self, key: &str) -> (usize, u64) {
        let holder = self.holder(key);
        let envelope = self.benches[holder].envelope(KEYSPACE, key);
        let list = ChunkList { name: b"film", end: u64::MAX, numbers_max: 10, ..ChunkList::default() };
        (holder, self.benches[holder].send_request(envelope, &Message::Chunks(list)))
    }

    /// The messages of the second instance after its first query are lost.
    pub(super) fn lose_decisions(&mut self) {
        let mut matching = 0;
        self.loses = Box::new(move |from, _| {
            matching += u32::from(from == 1);
            from == 1 && matching > 1
        });
    }

    /// The keys of the first page of the partition of a key.
    fn page(&mut self, request: (usize, u64)) -> Option<Result<Vec<String>, Failure<'static>>> {
        let keys = self.keys();
        let name = |key: &str| format!("{:?}", key.as_bytes());
        let shown = |text: String| keys.iter().filter(|key| text.contains(&name(key))).cloned().collect();
        self.answer(request).map(|answer| answer.map(shown))
    }

    /// A transaction over the first and the last partition is decided and answered, and the first partition has not been
    /// notified.
    fn half_notified(&mut self) -> Vec<String> {
        let keys = self.keys();
        assert_eq!((self.holder(&keys[0]), self.holder(&keys[3])), (0, 1));
        self.lose_decisions();
        let parts = self.parts(PartDurability::Sync, &[insert(&keys[0], "new"), insert(&keys[3], "new")]);
        let request = self.transact(1, &parts);
        while self.benches[1].sent.answers.is_empty() {
            self.run_batches(5);
        }
        assert!(self.answer(request).expect("is there").expect("is done").starts_with("transacted 2"));
        keys
    }
}

#[test]
fn scan_after_transaction_shows_its_changes_in_every_partition() {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    let keys = world.half_notified();
    let scan = world.scan(&keys[0], false);
    let listing = world.scan(&keys[0], true);
    let chunks = world.list_chunks(&keys[0]);
    // Records that no transaction is about to change are shown at once.
    let elsewhere = world.scan(&keys[1], false);
    world.run_batches(50);
    assert_eq!(world.answer(scan), None, "it is not applied there yet");
    assert_eq!(world.answer(listing), None, "nor is what may be a blob");
    assert_eq!(world.answer(chunks), None, "nor is what may be a chunk");
    assert_eq!(world.page(elsewhere), Some(Ok(vec![])));
    world.loses = Box::new(|_, _| false);
    world.run_batches(600);
    assert_eq!(world.page(scan), Some(Ok(vec![keys[0].clone()])));
    assert_eq!(world.page(listing), Some(Ok(vec![])));
    assert_eq!(world.page(chunks), Some(Ok(vec![])));
}

/// `KEYS` and `DBSIZE` of Redis are such batches.
#[test]
fn batch_over_all_records_comes_again_until_no_transaction_is_prepared() {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    let keys = world.half_notified();
    assert_eq!(
        world.list(&keys[0]),
        Err(Failure::Busy { retry_after_ms: 10 }),
        "it is not applied there yet"
    );
    assert_eq!(world.list(&keys[1]), Ok("true Ok(0) []".to_owned()));
    world.loses = Box::new(|_, _| false);
    world.run_batches(600);
    assert_eq!(world.list(&keys[0]), Ok(format!("true Ok(1) [{:?}]", keys[0])));
}

#[test]
fn scan_waits_for_earlier_transactions_only_and_for_limited_time() {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    let keys = world.half_notified();
    let scan = world.scan(&keys[0], false);
    world.run_batches(INTENT_WAIT_MS + 400);
    let failure = world.answer(scan).expect("is answered").expect_err("the decision is unknown");
    assert!(matches!(failure, Failure::Unavailable { .. }), "{failure:?}");
    let scan = world.scan(&keys[0], false);
    world.run_batches(5);
    // A later transaction over another record, which stays prepared because messages about its part are lost.
    world.loses = Box::new(|from, _| from == 0);
    let mut other = (0..).map(|n| format!("other-{n}"));
    let other = other.find(|key| world.partition(key) == PartitionId(0)).expect("there is one");
    let parts = world.parts(PartDurability::Sync, &[insert(&other, "new"), insert(&keys[3], "newer")]);
    let decided = world.transact(2, &parts);
    world.run_batches(1_000);
    assert_eq!(world.answer(decided), None);
    assert_eq!(world.page(scan), Some(Ok(vec![keys[0].clone()])), "it does not wait for the second one");
}
