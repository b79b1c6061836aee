//! `docs/formats/queues.md` states the bytes of a queue's keys and records.

#[path = "../../../engine/src/documented/tables.rs"]
mod tables;

use tables::{Document, Field, check, each, field, open};
use zerohop_layer_procedure::Record;

use crate::keys;
use crate::records::{
    ConsumerId, ConsumerRecord, CountsRecord, DeadRecord, EntryRecord, GroupPlace, GroupRecord, Lease,
    MessageId, MessageRecord, NameRecord, ProducerId, ProducerRecord, QueueOptions, WaitingRecord,
};

const DOCUMENT: &str = include_str!("../../../../docs/formats/queues.md");
const NUMBERS: [u64; 4] =
    [0x0102_0304_0506_0708, 0x1112_1314_1516_1718, 0x2122_2324_2526_2728, 0x3132_3334_3536_3738];
const SHORT: u32 = 0x4142_4344;
const MESSAGE: MessageId = MessageId { producer: ProducerId([7; 16]), number: 0x5152_5354_5556_5758 };

#[test]
fn keys_and_records_are_as_documented() {
    check(DOCUMENT, |document| {
        keys_of_all_kinds(document);
        counts_and_options(document);
        messages(document);
        groups(document);
        clients(document);
        names(document);
    });
}

fn format() -> Field {
    field("format, 1", [1])
}

fn number(words: &str, number: u64) -> Field {
    field(words, number.to_le_bytes())
}

fn short(words: &str) -> Field {
    field(words, SHORT.to_le_bytes())
}

fn keys_of_all_kinds(document: &mut Document<'_>) {
    const PARTITION: u32 = 0x0102_0304;
    let time = NUMBERS[1];
    let at = |words: &str| vec![field(words, time.to_be_bytes()), id()];
    let id_of = |words: &str, id: [u8; 16]| vec![field(words, id)];
    let group = || open("name of the group", "group");
    let name = || open("name of the message", "name");
    let zero = || field("zero", [0]);
    let (consumer, producer) = (ConsumerId([8; 16]), ProducerId([9; 16]));
    let all = [
        (0, "the counts", keys::counts(PARTITION), Vec::new()),
        (1, "ready message", keys::ready(PARTITION, time, MESSAGE), at("when it was pushed")),
        (2, "leased or delayed", keys::timed(PARTITION, time, MESSAGE), at("end of the lease or delay")),
        (3, "a message", keys::message(PARTITION, MESSAGE), vec![id()]),
        (4, "a group", keys::group(PARTITION, "group"), vec![group()]),
        (5, "a message of a group", keys::waiting(PARTITION, "group", time), {
            vec![group(), zero(), field("place in the group", time.to_be_bytes())]
        }),
        (6, "what a consumer", keys::consumer(PARTITION, consumer), id_of("id of the consumer", consumer.0)),
        (7, "what a producer", keys::producer(PARTITION, producer), id_of("id of the producer", producer.0)),
        (8, "a name", keys::name(PARTITION, "group", "name"), vec![group(), zero(), name()]),
        (9, "the end of a name", keys::name_end(PARTITION, time, "group", "name"), {
            vec![field("until when it counts", time.to_be_bytes()), group(), zero(), name()]
        }),
        (10, "a dead letter", keys::dead(PARTITION, time, MESSAGE), at("when it became one")),
        (32, "the options", keys::options(), Vec::new()),
    ];
    let numbers: Vec<(u64, &str)> = all.iter().map(|(kind, words, ..)| (*kind, *words)).collect();
    document.numbers("Keys / kind", &numbers);
    for (kind, _, key, mut fields) in all {
        let partition = if kind < 32 { PARTITION } else { 0 };
        let front = [field("partition", partition.to_be_bytes()), field("kind", [kind as u8])];
        fields.splice(0..0, front);
        document.listed("Keys / kind", kind, &key, &fields);
    }
}

fn id() -> Field {
    field("id of the message", MESSAGE.to_bytes())
}

fn counts_and_options(document: &mut Document<'_>) {
    let [pushed, finished, dead, returned] = NUMBERS;
    let record = CountsRecord { pushed, finished, dead, returned }.encode();
    let fields = [
        format(),
        number("messages that were pushed", pushed),
        number("messages that were acknowledged", finished),
        number("messages that became dead letters", dead),
        number("messages that became ready again", returned),
    ];
    document.layout("Counts / offset", &[], &record, &fields);
    for (place, count) in [
        (CountsRecord::PUSHED, pushed),
        (CountsRecord::FINISHED, finished),
        (CountsRecord::DEAD, dead),
        (CountsRecord::RETURNED, returned),
    ] {
        let place = place as usize;
        assert_eq!(record[place..place + 8], count.to_le_bytes());
    }
    let [created, lease, names, _] = NUMBERS;
    let options = QueueOptions { id: [9; 16], created, partitions: SHORT, lease, tries: SHORT + 1, names };
    let fields = [
        format(),
        field("random bytes", options.id),
        number("when it was created", created),
        short("number of partitions"),
        number("how long a lease lasts", lease),
        field("how often a message is leased", options.tries.to_le_bytes()),
        number("how long the name of a message counts", names),
    ];
    document.layout("Options / offset", &[], &options.encode(), &fields);
}

fn messages(document: &mut Document<'_>) {
    let [pushed, place, ..] = NUMBERS;
    let record = EntryRecord {
        pushed,
        tries: SHORT,
        bytes: SHORT + 1,
        consumer: Some(ConsumerId([8; 16])),
        place: Some(GroupPlace { group: "group".to_owned(), place }),
    };
    let bytes = record.encode();
    let fields = [
        format(),
        number("when the message was pushed", pushed),
        short("how often it was leased"),
        field("bytes of its value", record.bytes.to_le_bytes()),
        open("if it is leased", [1]),
        field("the consumer", [8; 16]),
        open("if it is in a group", [1]),
        number("its place in the group", place),
        open("the name of the group", &bytes[43..]),
    ];
    document.layout("Entry / offset", &[], &bytes, &fields);
    let record = MessageRecord {
        pushed,
        group: Some("group".to_owned()),
        name: Some("name".to_owned()),
        value: vec![1, 2, 3],
    };
    let bytes = record.encode();
    let fields =
        [format(), number("when it was pushed", pushed), open("group, an optional text", &bytes[9..])];
    document.layout("Message / offset", &[], &bytes, &fields);
    let record = DeadRecord { tries: SHORT, bytes: SHORT + 1 };
    let bytes = field("bytes of its value", record.bytes.to_le_bytes());
    let fields = [format(), short("how often it was leased"), bytes];
    document.layout("Dead letter / offset", &[], &record.encode(), &fields);
}

fn groups(document: &mut Document<'_>) {
    let [first, next, due, pushed] = NUMBERS;
    let fields =
        [format(), number("place of its first message", first), number("place of its next message", next)];
    document.layout("Group / offset", &[], &GroupRecord { first, next }.encode(), &fields);
    let fields = [
        format(),
        id(),
        number("before this moment it is not ready", due),
        number("when it was pushed", pushed),
        short("bytes of its value"),
    ];
    let record = WaitingRecord { message: MESSAGE, due, pushed, bytes: SHORT };
    document.layout("Group / offset, second", &[], &record.encode(), &fields);
}

fn clients(document: &mut Document<'_>) {
    let [last, used, lapsed, due] = NUMBERS;
    let lease = Lease { pop: last, due, message: MESSAGE, tries: SHORT };
    let bytes = ConsumerRecord { number: last, used, lapsed, leases: vec![lease; 3] }.encode();
    let fields = [
        format(),
        number("number of its last pop", last),
        number("when that was", used),
        number("leases that ended", lapsed),
        field("number of leases", 3u32.to_le_bytes()),
        each(3, "leases", &bytes[29..]),
    ];
    document.layout("Consumer / offset", &[], &bytes, &fields);
    let fields = [
        number("number of its pop", last),
        number("its end", due),
        id(),
        short("how often the message was leased"),
    ];
    document.sentence("A lease:", &bytes[bytes.len() - 44..], &fields);
    let bytes = ProducerRecord { number: last, used, duplicates: vec![(due, MESSAGE); 2] }.encode();
    let fields = [
        format(),
        number("number of its last message", last),
        number("when it last pushed", used),
        field("number of messages of its last push", 2u32.to_le_bytes()),
        each(2, "these messages", &bytes[21..]),
    ];
    document.layout("Producer / offset", &[], &bytes, &fields);
    let fields =
        [number("its number", due), field("id of the message that has its name", MESSAGE.to_bytes())];
    document.sentence("Such a message:", &bytes[bytes.len() - 32..], &fields);
}

fn names(document: &mut Document<'_>) {
    let until = NUMBERS[0];
    let fields = [format(), id(), number("until when the name counts", until)];
    document.layout("Name / offset", &[], &NameRecord { message: MESSAGE, until }.encode(), &fields);
}
