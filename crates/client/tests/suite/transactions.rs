//! Transactions of the client over real sockets, against a small server that runs each transaction
//! at once.

#![expect(clippy::unwrap_used, reason = "a test; the lint spares only functions marked as such")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zerohop_client::{
    AbortReason, BlockingClient, BlockingHandle, Client, ClientOptions, Condition, Error, Failure,
    InvalidTransaction, Reason, Record, Transform,
};
use zerohop_placement::{Address, ClusterMap, Node, NodeState};
use zerohop_transaction::codec::decode_parts;
use zerohop_transaction::{ItemBody, Items};
use zerohop_wire::ids::*;
use zerohop_wire::limits::VERSION_MAX;
use zerohop_wire::messages::*;
use zerohop_wire::{DecodeResult, Decoder, Elements, Encoder, Envelope, Features, pack};

use crate::give_up::GIVE_UP_AFTER;
use zerohop_wire::messages::{Increment, Insert, Remove};

/// Records of bytes, with versions.
#[derive(Clone, Default)]
struct VersionedBytes {
    records: BTreeMap<Vec<u8>, (Timestamp, Vec<u8>)>,
    clock: u64,
    transactions: u64,
    /// The reasons for which the next transactions are aborted.
    refuse: Vec<AbortReason>,
    /// The number of reads that must arrive before any is answered; `reads` has those that wait.
    reads_at_once: usize,
    reads: Vec<(Envelope, Vec<u8>)>,
    read_count: usize,
}

async fn serve() -> (String, Arc<Mutex<VersionedBytes>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let node = Node {
        id: NodeId(1),
        state: NodeState::Up,
        incarnation: Incarnation(1),
        manager: Address::new(&address).unwrap(),
        first_instance: InstanceId(1),
        instances: vec![Address::new(&address).unwrap()],
    };
    let map = Arc::new(ClusterMap::of_one_node(node, 3).unwrap());
    let store = Arc::new(Mutex::new(VersionedBytes { clock: 100, ..VersionedBytes::default() }));
    let shared = Arc::clone(&store);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(talk(stream, Arc::clone(&map), Arc::clone(&shared)));
        }
    });
    (address, store)
}

async fn talk(mut stream: TcpStream, map: Arc<ClusterMap>, store: Arc<Mutex<VersionedBytes>>) {
    let (mut input, mut scratch) = (Vec::new(), Vec::new());
    let mut decoder = Decoder::before_hello();
    loop {
        let (mut out, mut at) = (Vec::new(), 0);
        while let DecodeResult::Frame { frame, used } = decoder.decode(&input[at..]) {
            at += used;
            decoder = Decoder::with_version(VERSION_MAX, Features::LZ4);
            let message = frame.message(&mut scratch).unwrap();
            answer(&frame.envelope, message, &map, &mut store.lock().unwrap(), &mut out);
        }
        input.drain(..at);
        let is_over = stream.write_all(&out).await.is_err();
        if is_over || stream.read_buf(&mut input).await.is_ok_and(|read| read == 0) {
            return;
        }
    }
}

fn answer(
    envelope: &Envelope,
    message: Message<'_>,
    map: &ClusterMap,
    store: &mut VersionedBytes,
    out: &mut Vec<u8>,
) {
    let envelope = Envelope { time_out_ms: 0, ..*envelope };
    let mut say =
        |message: &Message<'_>| Encoder::newest_for(message).encode(&envelope, message, out).unwrap();
    match message {
        Message::Hello(_) => {
            say(&Message::HelloAck(HelloAck { version: VERSION_MAX, ..HelloAck::default() }))
        }
        Message::MapGet(_) => {
            let (epoch, encoded) = (map.epoch(), map.encode());
            say(&Message::Map(Map { epoch, since: MapEpoch(0), encoded: &encoded }));
        }
        Message::SessionOpen(_) => {
            let session = SessionId { issued: Timestamp(7), nonce: 1 };
            say(&Message::SessionOpened(SessionOpened { session, idle_ms: 0 }));
        }
        Message::Read { read, .. } if store.reads_at_once == 0 => {
            store.read(&read, |answer| say(&Message::Answer(answer)));
        }
        Message::Read { read, .. } => {
            store.read_count += 1;
            // A read without an answer may be sent again.
            store.reads.retain(|(_, key)| key != read.key);
            store.reads.push((envelope, read.key.to_vec()));
            if store.reads.len() < store.reads_at_once {
                return;
            }
            for (envelope, key) in std::mem::take(&mut store.reads) {
                store.read(&RecordRead { key: &key, query: Query::Lookup }, |answer| {
                    let answer = Message::Answer(answer);
                    Encoder::newest_for(&answer).encode(&envelope, &answer, out).unwrap();
                });
            }
        }
        Message::Write { write, .. } => {
            store.clock += 1;
            let version = Timestamp(store.clock);
            say(&Message::Answer(store.write(&write, version)));
        }
        Message::Batch(batch) => {
            let (mut packed, mut count) = (Vec::new(), 0);
            for operation in batch.operations.iter() {
                let RecordOperation::Read(read) = operation else { panic!("only reads are batched here") };
                store.read(&read, |answer| pack(&answer, &mut packed).unwrap());
                count += 1;
            }
            say(&Message::BatchAnswer(Elements::packed(count, &packed).unwrap()));
        }
        Message::Transact(transact) => match store.transact(transact.parts) {
            Ok((version, packed)) => {
                let answers = Elements::all(&packed).unwrap();
                say(&Message::Transacted(TransactionDone { version, answers }));
            }
            Err(failure) => say(&Message::Answer(Err(failure))),
        },
        other => panic!("the client asks {other:?}"),
    }
}

impl VersionedBytes {
    fn version(&self, key: &[u8]) -> Timestamp {
        self.records.get(key).map_or(Timestamp::ZERO, |(version, _)| *version)
    }

    fn read(&self, read: &RecordRead<'_>, tell: impl FnOnce(OperationAnswer<'_>)) {
        if let Query::Confirm(Confirm { version }) = read.query {
            let number = u64::from(self.version(read.key) == version);
            return tell(Ok(Outcome::Done { version, number }));
        }
        match self.records.get(read.key) {
            None => tell(Err(Failure::NotFound)),
            Some((version, bytes)) => {
                tell(Ok(Outcome::Value { version: *version, length: bytes.len() as u64, bytes }));
            }
        }
    }

    fn write(&mut self, write: &RecordWrite<'_>, version: Timestamp) -> OperationAnswer<'static> {
        let found = self.records.get(write.key).map(|(_, bytes)| bytes.clone());
        if write.condition == Condition::IfAbsent && found.is_some() {
            let found = Some(RecordType::Bytes);
            return Err(Failure::ConditionFailed { version: self.version(write.key), found });
        }
        let (bytes, outcome) = match write.change {
            WriteChange::Insert(Insert { value, .. }) => {
                (value.to_vec(), Outcome::Done { version, number: 0 })
            }
            WriteChange::Increment(Increment { delta }) => {
                let text = String::from_utf8(found.unwrap_or(b"0".to_vec())).unwrap();
                let Ok(value) = text.parse::<i64>() else { return Err(Failure::NotANumber) };
                let value = value + delta;
                (value.to_string().into_bytes(), Outcome::Counter { version, value })
            }
            WriteChange::Remove(Remove) => {
                let number = u64::from(self.records.remove(write.key).is_some());
                return Ok(Outcome::Done { version, number });
            }
            ref other => panic!("the tests do not use {other:?}"),
        };
        self.records.insert(write.key.to_vec(), (version, bytes));
        Ok(outcome)
    }

    fn transact(&mut self, parts: &[u8]) -> Result<(Timestamp, Vec<u8>), Failure<'static>> {
        self.transactions += 1;
        let none = AbortReason::NONE;
        if let Some(reason) = self.refuse.pop() {
            return Err(Failure::Aborted { reason, part: none, item: none });
        }
        self.clock += 1;
        let (version, mut after, mut packed) = (Timestamp(self.clock), self.clone(), Vec::new());
        for (part, one) in (0..).zip(decode_parts(parts).unwrap()) {
            let Items::Inline(items) = &one.items else { panic!("nothing is staged here") };
            for (item, one) in (0..).zip(items) {
                let aborted = |reason| Err(Failure::Aborted { reason, part, item });
                let ItemBody::Inline(bytes) = &one.body else { panic!("nothing is staged here") };
                let operation =
                    Elements::<RecordOperation<'_>>::packed(1, bytes).unwrap().iter().next().unwrap();
                if one.seen.is_some_and(|seen| seen != self.version(operation.key())) {
                    return aborted(AbortReason::ReadChanged);
                }
                let mut add_answer =
                    |answer: OperationAnswer<'_>| pack(&ItemAnswer(answer), &mut packed).unwrap();
                match operation {
                    RecordOperation::Read(read) => after.read(&read, add_answer),
                    RecordOperation::Write(write) => match after.write(&write, version) {
                        Err(Failure::ConditionFailed { .. }) => return aborted(AbortReason::ConditionFailed),
                        answer => add_answer(answer),
                    },
                }
            }
        }
        self.records = after.records;
        Ok((version, packed))
    }
}

fn reason(error: &Error) -> &Reason {
    let Error::Operation { reason, .. } = error else { panic!("{error}") };
    reason
}

#[tokio::test]
async fn reads_include_own_writes_and_effects_wait_for_commit() {
    let (address, store) = serve().await;
    let client = Client::connect(&address).await.unwrap();
    let keyspace = client.keyspace("default").await.unwrap();
    keyspace.insert("a", "1").await.unwrap();
    let tx = client.begin();
    assert_eq!(tx.get(&keyspace, "a").await.unwrap().unwrap(), "1");
    tx.insert(&keyspace, "b", "2").unwrap();
    assert_eq!(tx.get(&keyspace, "b").await.unwrap().unwrap(), "2");
    let sum = tx.write(keyspace.increment("a", 41)).unwrap();
    let removed = tx.write(keyspace.remove("absent")).unwrap();
    assert_eq!(tx.get(&keyspace, "a").await.unwrap().unwrap(), "42");
    assert_eq!(tx.read(keyspace.lookup("absent")).await.unwrap(), None);
    assert_eq!(keyspace.lookup("b").await.unwrap(), None);
    let committed = tx.commit().await.unwrap();
    assert_eq!((committed.result(&sum).unwrap(), committed.result(&removed).unwrap()), (42, false));
    let Some(Record::Bytes { version, bytes, .. }) = keyspace.lookup("b").await.unwrap() else { panic!() };
    assert_eq!((version, &bytes[..]), (committed.version(), &b"2"[..]));
    // A write that is refused does not affect the others, and its return value is the error.
    let tx = client.begin();
    tx.insert(&keyspace, "c", "x").unwrap();
    let bad = tx.write(keyspace.increment("c", 1)).unwrap();
    let committed = tx.commit().await.unwrap();
    assert_eq!(committed.result(&bad).unwrap_err().failure(), Some(&Failure::NotANumber));
    assert_eq!(store.lock().unwrap().transactions, 2);
}

/// The server answers no read before all have arrived.
#[tokio::test]
async fn several_records_are_read_in_one_round_with_own_writes() {
    let (address, store) = serve().await;
    let client = Client::connect(&address).await.unwrap();
    let keyspace = &client.keyspace("default").await.unwrap();
    for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
        keyspace.insert(key, value).await.unwrap();
    }
    let text = |found: Vec<Option<Record>>| -> Vec<Option<String>> {
        let one = |record: Record| match record {
            Record::Bytes { bytes, .. } => String::from_utf8_lossy(&bytes).into_owned(),
            Record::List { .. } => panic!("there are no lists"),
        };
        found.into_iter().map(|found| found.map(one)).collect()
    };
    let tx = client.begin();
    tx.insert(keyspace, "own", "mine").unwrap();
    tx.remove(keyspace, "c").unwrap();
    tx.write(keyspace.increment("b", 40)).unwrap();
    // Known values are not requested, and no value twice: only "a", "b" below its own change, and
    // the absent record are.
    store.lock().unwrap().reads_at_once = 3;
    let all = [
        (keyspace, "a"),
        (keyspace, "own"),
        (keyspace, "gone"),
        (keyspace, "c"),
        (keyspace, "b"),
        (keyspace, "a"),
    ];
    let found = tokio::time::timeout(GIVE_UP_AFTER, tx.read_many(&all)).await.expect("one round");
    let expected =
        ["1", "mine", "", "", "42", "1"].map(|text| Some(text.to_owned()).filter(|text| !text.is_empty()));
    assert_eq!(text(found.unwrap()), expected);
    assert_eq!(store.lock().unwrap().read_count, 3);
    store.lock().unwrap().reads_at_once = usize::MAX;
    let again = tokio::time::timeout(GIVE_UP_AFTER, tx.read_many(&all)).await.expect("sends no request");
    assert_eq!(text(again.unwrap()), expected);
    store.lock().unwrap().reads_at_once = 0;
    tx.commit().await.unwrap();
    // All that was read must be unchanged at the commit, absence too.
    for key in ["a", "gone"] {
        let tx = client.begin();
        tx.read_many(&all).await.unwrap();
        keyspace.insert(key, "new").await.unwrap();
        tx.insert(keyspace, "d", "4").unwrap();
        assert!(tx.commit().await.unwrap_err().is_conflict(), "{key}");
    }
    let tx = client.begin();
    tx.write(keyspace.transform("own", Transform::add(1_u8))).unwrap();
    let own = tx.read_many(&[(keyspace, "own")]).await.unwrap();
    assert!(matches!(&own[..], [Some(Record::Bytes { bytes, .. })] if &**bytes == b"nine"), "{own:?}");
    assert_eq!(tx.read_many::<&str>(&[]).await.unwrap(), []);
    let many = vec![(keyspace, "a"); 20_000];
    assert!(matches!(
        reason(&tx.read_many(&many).await.unwrap_err()),
        Reason::InvalidTransaction(InvalidTransaction::Items { .. })
    ));
}

#[tokio::test]
async fn changed_read_aborts_transaction_and_names_the_record() {
    let (address, store) = serve().await;
    let client = Client::connect(&address).await.unwrap();
    let keyspace = client.keyspace("default").await.unwrap();
    for (key, is_written) in [("read", false), ("written", true), ("absent", false)] {
        if key != "absent" {
            keyspace.insert(key, "old").await.unwrap();
        }
        let tx = client.begin();
        tx.get(&keyspace, key).await.unwrap();
        tx.insert(&keyspace, if is_written { key } else { "elsewhere" }, "mine").unwrap();
        keyspace.insert(key, "new").await.unwrap();
        // The first value again: a transaction reads each record once.
        let again = tx.get(&keyspace, key).await.unwrap();
        assert!(is_written || again.as_deref() != Some(b"new"));
        let error = tx.commit().await.unwrap_err();
        assert!(error.is_conflict() && !error.is_unknown());
        assert!(
            error.to_string().starts_with(&format!("key \"{key}\": the transaction was not done")),
            "{error}"
        );
    }
    assert_eq!(keyspace.lookup("elsewhere").await.unwrap(), None);
    // This includes records that are only read; a transaction that reads a single record need not
    // be validated.
    let before = store.lock().unwrap().transactions;
    let tx = client.begin();
    tx.get(&keyspace, "read").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(store.lock().unwrap().transactions, before);
    let tx = client.begin();
    tx.get(&keyspace, "read").await.unwrap();
    tx.get(&keyspace, "written").await.unwrap();
    keyspace.insert("read", "newer").await.unwrap();
    assert!(tx.commit().await.unwrap_err().is_conflict());
    // A version can be required without a read, also as all that the transaction does.
    for (key, version, stands) in
        [("read", None, false), ("read", Some(Timestamp(1)), false), ("nothing", None, true)]
    {
        let tx = client.begin();
        tx.require(&keyspace, key, version).unwrap();
        let result = tx.commit().await;
        assert_eq!(result.as_ref().err().is_some_and(Error::is_conflict), !stands, "{key}: {result:?}");
    }
    let Some(Record::Bytes { version, .. }) = keyspace.lookup("read").await.unwrap() else { panic!() };
    let tx = client.begin();
    tx.require(&keyspace, "read", Some(version)).unwrap();
    tx.insert(&keyspace, "read", "as required").unwrap();
    tx.commit().await.unwrap();
    // The record is read in two ways, with a write in between.
    let tx = client.begin();
    tx.get(&keyspace, "read").await.unwrap();
    keyspace.insert("read", "newest").await.unwrap();
    let range = Range { start: 0, stop: 1 };
    assert!(tx.read(keyspace.lookup_range("read", range)).await.unwrap_err().is_conflict());
}

#[tokio::test]
async fn transaction_function_is_retried_until_commit() {
    let (address, store) = serve().await;
    let client = Client::connect(&address).await.unwrap();
    let keyspace = client.keyspace("default").await.unwrap();
    store.lock().unwrap().refuse = vec![AbortReason::Overloaded, AbortReason::Unknown];
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (client, keyspace) = (client.clone(), keyspace.clone());
            tokio::spawn(async move {
                for _ in 0..10 {
                    let keyspace = &keyspace;
                    client
                        .transaction(|tx| async move {
                            let text = tx.get(keyspace, "count").await?.unwrap_or_default();
                            let count: u32 = std::str::from_utf8(&text).unwrap().parse().unwrap_or(0);
                            tx.insert(keyspace, "count", &(count + 1).to_string())?;
                            tx.insert(keyspace, &format!("note-{count}"), "taken")
                        })
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(keyspace.lookup_bytes("count").await.unwrap().unwrap(), "80");
    assert_eq!(store.lock().unwrap().records.len(), 81);
    // A transaction that is aborted inside is not committed.
    let ended = client
        .transaction(|tx| {
            let keyspace = &keyspace;
            async move {
                tx.insert(keyspace, "count", "0")?;
                tx.clone().abort();
                assert_eq!(tx.insert(keyspace, "count", "0"), Err(Error::Ended));
                Ok(7)
            }
        })
        .await;
    assert_eq!(ended, Ok(7));
    assert_eq!(keyspace.lookup_bytes("count").await.unwrap().unwrap(), "80");
}

#[tokio::test]
async fn conflicts_end_at_the_deadline_and_conditions_at_once() {
    let (address, store) = serve().await;
    store.lock().unwrap().refuse = vec![AbortReason::TimedOut; 100_000];
    // A slow machine reaches the second attempt only with a longer deadline.
    let mut deadline = Duration::from_millis(300);
    loop {
        let before = store.lock().unwrap().transactions;
        let options = ClientOptions { deadline, ..ClientOptions::default() };
        let client = Client::connect_with(&[&address], options).await.unwrap();
        let keyspace = &client.keyspace("default").await.unwrap();
        let write = || client.transaction(|tx| async move { tx.insert(keyspace, "k", "v") });
        let error = write().await.unwrap_err();
        assert!(error.is_conflict() || deadline < GIVE_UP_AFTER, "{error}");
        let tries = store.lock().unwrap().transactions - before;
        assert!(tries < deadline.as_millis() as u64 / 3, "it pauses between tries: {tries}");
        if tries > 1 && matches!(reason(&error), Reason::Aborted { reason: AbortReason::TimedOut, .. }) {
            break;
        }
        deadline *= 2;
    }
    let client = Client::connect(&address).await.unwrap();
    let keyspace = &client.keyspace("default").await.unwrap();
    store.lock().unwrap().refuse.clear();
    keyspace.insert("k", "v").await.unwrap();
    let before = store.lock().unwrap().transactions;
    let error = client
        .transaction(|tx| async move {
            tx.write(keyspace.insert("k", "w").condition(Condition::IfAbsent)).map(drop)
        })
        .await
        .unwrap_err();
    assert!(
        matches!(reason(&error), Reason::Aborted { reason: AbortReason::ConditionFailed, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("key \"k\"") && !error.is_conflict());
    assert_eq!(store.lock().unwrap().transactions, before + 1);
}

#[tokio::test]
async fn invalid_transaction_is_refused_with_reason() {
    let (address, _) = serve().await;
    let client = Client::connect(&address).await.unwrap();
    let keyspace = client.keyspace("default").await.unwrap();
    let error = client.begin().commit().await.unwrap_err();
    assert_eq!(reason(&error), &Reason::InvalidTransaction(InvalidTransaction::Empty));
    let tx = client.begin();
    for number in 0..16_384 {
        tx.insert(&keyspace, &number.to_string(), "v").unwrap();
    }
    let error = tx.insert(&keyspace, "one more", "v").unwrap_err();
    assert!(error.to_string().contains("16385 operations in one transaction, 16384 are allowed"), "{error}");
    let tx = client.begin();
    let error = tx.write(keyspace.lookup("k")).unwrap_err();
    assert_eq!(reason(&error), &Reason::InvalidTransaction(InvalidTransaction::NoWrite));
    tx.write(keyspace.transform("k", Transform::add(1_u32))).unwrap();
    assert_eq!(tx.get(&keyspace, "k").await.unwrap().as_deref(), Some(&[1, 0, 0, 0][..]));
    let error = tx.read(keyspace.inspect("k")).await.unwrap_err();
    assert!(matches!(error, Error::NotReadBack { .. }), "{error}");
}

#[tokio::test]
async fn many_records_are_read_together() {
    let (address, store) = serve().await;
    let client = Client::connect(&address).await.unwrap();
    let keyspace = client.keyspace("default").await.unwrap();
    let keys: Vec<String> = (0..20).map(|at| format!("key-{at}")).collect();
    for key in &keys {
        keyspace.insert(key, key).await.unwrap();
    }
    let found = keyspace.read_many(&keys).await.unwrap();
    let bytes = |record: &Option<Record>| match record {
        Some(Record::Bytes { bytes, .. }) => Some(String::from_utf8(bytes.to_vec()).unwrap()),
        _ => None,
    };
    assert_eq!(found.iter().filter_map(bytes).collect::<Vec<_>>(), keys);
    assert_eq!(store.lock().unwrap().transactions, 0);
    let found = client.read_many(&[(&keyspace, "absent"), (&keyspace, "key-3")]).await.unwrap();
    assert_eq!(found.iter().map(bytes).collect::<Vec<_>>(), [None, Some("key-3".to_owned())]);
    assert_eq!(client.read_many::<&str>(&[]).await.unwrap(), []);
}

#[test]
fn blocking_client_runs_transactions() {
    let (sender, served) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                sender.send(serve().await).unwrap();
                drop(stopped.await);
            });
        });
        let (address, store) = served.recv().unwrap();
        transact_without_a_runtime(&address, &store);
        stop.send(()).unwrap();
    });
}

fn transact_without_a_runtime(address: &str, store: &Mutex<VersionedBytes>) {
    let client = BlockingClient::connect(address).unwrap();
    let keyspace = client.keyspace("default").unwrap();
    store.lock().unwrap().refuse = vec![AbortReason::ReadChanged];
    let calls = std::cell::Cell::new(0);
    let result = client.transaction(|tx| {
        calls.set(calls.get() + 1);
        assert_eq!(tx.get(&keyspace, "a")?, None);
        tx.insert(&keyspace, "a", "1")?;
        tx.insert(&keyspace, "b", "2")?;
        Ok(5)
    });
    assert_eq!((result, calls.get()), (Ok(5), 2));
    let found = client.read_many(&[(&keyspace, "a"), (&keyspace, "b")]).unwrap();
    assert!(found.iter().all(Option::is_some));
    let tx = client.begin();
    assert_eq!(tx.get(&keyspace, "a").unwrap().unwrap(), "1");
    tx.remove(&keyspace, "a").unwrap();
    let found = tx.wait_for(tx.read_many(&[(&keyspace, "a"), (&keyspace, "b")])).unwrap();
    assert!(matches!(&found[..], [None, Some(Record::Bytes { bytes, .. })] if bytes == "2"));
    tx.commit().unwrap();
    let tx = client.begin();
    assert_eq!(tx.read(keyspace.lookup("a")).unwrap(), None);
    tx.abort();
}
