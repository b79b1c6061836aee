//! From a request frame to its answer: a hash map, and the minimum for a client to connect.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use xxhash_rust::xxh3::xxh3_64;
use zerohop_placement::ClusterMap;
use zerohop_wire::ids::{Incarnation, InstanceId, SessionId, Timestamp};
use zerohop_wire::limits::VERSION_MAX;
use zerohop_wire::messages::{
    HelloAck, Insert, Map, Message, OperationAnswer, Outcome, Pong, Query, RecordOperation, RecordRead,
    RecordWrite, Remove, SessionOpened, WriteChange,
};
use zerohop_wire::{Elements, Encoder, Envelope, Failure, Frame, FrameKind, pack};

/// Records, and the state that a client needs to reach them.
pub(super) struct Store {
    records: HashMap<Box<[u8]>, Record, BuildHasherDefault<Xxh3>>,
    map: ClusterMap,
    encoded_map: Vec<u8>,
    clock: Timestamp,
    sessions: u64,
    encoder: Encoder,
    /// The items of a batch's answer.
    packed: Vec<u8>,
    expanded: Vec<u8>,
}

struct Record {
    version: Timestamp,
    value: Box<[u8]>,
}

impl Store {
    /// An empty store. Versions continue from `now`.
    pub(super) fn new(map: ClusterMap, now: Timestamp) -> Store {
        Store {
            records: HashMap::default(),
            encoded_map: map.encode(),
            map,
            clock: now,
            sessions: 0,
            encoder: Encoder { version: VERSION_MAX, ..Encoder::default() },
            packed: Vec::new(),
            expanded: Vec::new(),
        }
    }

    /// Appends the answer to `out`.
    pub(super) fn answer(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) -> Result<(), Failure<'static>> {
        let mut expanded = std::mem::take(&mut self.expanded);
        let answered = match frame.message(&mut expanded) {
            Ok(message) => self.answer_message(&frame.envelope, message, out),
            Err(failure) => self.refuse(&frame.envelope, failure, out),
        };
        self.expanded = expanded;
        answered
    }

    /// Appends a refusal to `out`.
    pub(super) fn refuse(
        &self,
        envelope: &Envelope,
        failure: Failure<'static>,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure<'static>> {
        self.encoder.encode(envelope, &Message::Answer(Err(failure)), out)
    }

    fn answer_message(
        &mut self,
        envelope: &Envelope,
        message: Message<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure<'static>> {
        let encoder = self.encoder;
        let mut say = |message: &Message<'_>| encoder.encode(envelope, message, out);
        let (map_epoch, now) = (self.map.epoch(), self.clock);
        match message {
            Message::Read { read, .. } => say(&Message::Answer(self.read(&read))),
            Message::Write { write, .. } => say(&Message::Answer(self.write(&write))),
            Message::Batch(batch) => {
                let mut packed = std::mem::take(&mut self.packed);
                packed.clear();
                for operation in batch.operations.iter() {
                    match operation {
                        RecordOperation::Read(read) => pack(&self.read(&read), &mut packed)?,
                        RecordOperation::Write(write) => pack(&self.write(&write), &mut packed)?,
                    }
                }
                let answers = Elements::packed(batch.operations.len() as u32, &packed)?;
                say(&Message::BatchAnswer(answers))?;
                self.packed = packed;
                Ok(())
            }
            Message::Hello(_) => say(&Message::HelloAck(HelloAck {
                version: 1,
                instance: InstanceId(1),
                incarnation: Incarnation(1),
                map_epoch,
                now,
                ..HelloAck::default()
            })),
            Message::SessionOpen(_) => {
                self.sessions += 1;
                let session = SessionId { issued: now, nonce: self.sessions };
                say(&Message::SessionOpened(SessionOpened { session, idle_ms: 600_000 }))
            }
            Message::MapGet(get) if get.since == map_epoch => {
                say(&Message::Map(Map { epoch: map_epoch, since: map_epoch, encoded: &[] }))
            }
            Message::MapGet(_) => {
                say(&Message::Map(Map { epoch: map_epoch, encoded: &self.encoded_map, ..Map::default() }))
            }
            Message::Ping(_) => say(&Message::Pong(Pong { map_epoch, now })),
            other => say(&Message::Answer(Err(unknown(other.kind())))),
        }
    }

    fn read(&self, read: &RecordRead<'_>) -> OperationAnswer<'_> {
        match read.query {
            Query::Lookup => {
                let Record { version, value } = self.records.get(read.key).ok_or(Failure::NotFound)?;
                Ok(Outcome::Value { version: *version, length: value.len() as u64, bytes: value })
            }
            _ => Err(unknown(FrameKind::Inspect)),
        }
    }

    fn write(&mut self, write: &RecordWrite<'_>) -> OperationAnswer<'static> {
        self.clock = self.clock.next();
        let version = self.clock;
        match write.change {
            WriteChange::Insert(Insert { value, .. }) => {
                match self.records.get_mut(write.key) {
                    Some(record) if record.value.len() == value.len() => {
                        record.version = version;
                        record.value.copy_from_slice(value);
                    }
                    Some(record) => *record = Record { version, value: value.into() },
                    None => {
                        drop(self.records.insert(write.key.into(), Record { version, value: value.into() }))
                    }
                }
                Ok(Outcome::Done { version, number: 0 })
            }
            WriteChange::Remove(Remove) => {
                let number = self.records.remove(write.key).map_or(0, |_| 1);
                Ok(Outcome::Done { version: Timestamp::ZERO, number })
            }
            _ => Err(unknown(FrameKind::CompareSwap)),
        }
    }
}

fn unknown(kind: FrameKind) -> Failure<'static> {
    Failure::UnknownKind { kind: kind.number() }
}

/// xxh3 without a seed: a benchmark has no attackers.
#[derive(Default)]
struct Xxh3(u64);

impl Hasher for Xxh3 {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    // A slice hashes its length before its bytes, which would cost a second hash.
    fn write_usize(&mut self, _length: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_common::maps::map_of_one;
    use zerohop_wire::messages::{Condition, Expiry, OperationBatch, Stamp};
    use zerohop_wire::{DecodeResult, Decoder, Features};

    /// The store's answer to a message, as text.
    fn answer_text(store: &mut Store, message: &Message<'_>) -> String {
        let (mut request, mut out) = (Vec::new(), Vec::new());
        let envelope = Envelope { request: 4.into(), ..Envelope::default() };
        Encoder::newest_for(message).encode(&envelope, message, &mut request).unwrap();
        let decoder = Decoder::with_version(VERSION_MAX, Features::default());
        let DecodeResult::Frame { frame, .. } = decoder.decode(&request) else { panic!("no frame") };
        store.answer(&frame, &mut out).unwrap();
        let DecodeResult::Frame { frame, used } = decoder.decode(&out) else { panic!("no answer") };
        assert_eq!((used, frame.envelope.request), (out.len(), envelope.request));
        format!("{:?}", frame.message(&mut Vec::new()).unwrap())
    }

    fn insert(value: &[u8]) -> RecordWrite<'_> {
        let change = WriteChange::Insert(Insert { value, expiry: Expiry::Never });
        RecordWrite { key: b"k", condition: Condition::Always, change }
    }

    #[test]
    fn lookup_finds_record_until_removal() {
        let mut store = Store::new(map_of_one("127.0.0.1:7400").unwrap(), Timestamp(10));
        let lookup =
            Message::Read { seen: Timestamp(0), read: RecordRead { key: b"k", query: Query::Lookup } };
        let remove =
            RecordWrite { key: b"k", condition: Condition::Always, change: WriteChange::Remove(Remove) };
        let write = |write| Message::Write { stamp: Stamp::default(), write };
        assert!(answer_text(&mut store, &lookup).contains("NotFound"));
        for value in [b"one".as_slice(), b"two", b"three"] {
            assert!(answer_text(&mut store, &write(insert(value))).contains("Done"));
            let found = answer_text(&mut store, &lookup);
            assert!(found.contains(&format!("{value:?}")), "{found}");
        }
        assert!(answer_text(&mut store, &write(remove)).contains("number: 1"));
        assert!(answer_text(&mut store, &write(remove)).contains("number: 0"));
        assert!(answer_text(&mut store, &lookup).contains("NotFound"));
    }

    #[test]
    fn a_batch_is_answered_in_order() {
        let mut store = Store::new(map_of_one("127.0.0.1:7400").unwrap(), Timestamp(10));
        let lookup = RecordOperation::Read(RecordRead { key: b"k", query: Query::Lookup });
        let operations = [lookup, RecordOperation::Write(insert(b"v")), lookup];
        let batch = OperationBatch { stamp: Stamp::default(), operations: Elements::from_slice(&operations) };
        let answers = answer_text(&mut store, &Message::Batch(batch));
        let places = ["NotFound", "Done", "Value"].map(|word| answers.find(word).unwrap());
        assert!(places.is_sorted(), "{answers}");
    }
}
