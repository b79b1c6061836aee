//! However a client's input is cut and delayed, the replies are those of one command after the
//! other.

use proptest::prelude::*;
use zerohop_placement::hash::key_slot;
use zerohop_resp::model::ModelWorld;
use zerohop_resp::{Connection, ConnectionWorld, NextStep, PartitionPlace};
use zerohop_wire::ids::{KeyspaceId, PartitionId};

const PARTITIONS: u32 = 4;

/// `k` is a key, `v` a value, `n` a number; everything else is literal.
const TEMPLATES: &[&str] = &[
    "GET k",
    "SET k v",
    "SET k v NX",
    "SET k v XX GET",
    "SET k v EX 100",
    "SETNX k v",
    "SETEX k n v",
    "PSETEX k n v",
    "GETSET k v",
    "GETDEL k",
    "GETEX k EX n",
    "GETEX k PERSIST",
    "APPEND k v",
    "STRLEN k",
    "GETRANGE k n n",
    "SETRANGE k n v",
    "INCR k",
    "DECR k",
    "INCRBY k n",
    "DECRBY k n",
    "INCRBYFLOAT k n",
    "MGET k k",
    "MSET k v k v",
    "MSETNX k v k v",
    "DEL k k",
    "UNLINK k",
    "EXISTS k k",
    "TOUCH k",
    "EXPIRE k n",
    "EXPIRE k n GT",
    "PEXPIRE k n LT",
    "EXPIREAT k n",
    "PEXPIREAT k n NX",
    "TTL k",
    "PTTL k",
    "EXPIRETIME k",
    "PEXPIRETIME k",
    "PERSIST k",
    "TYPE k",
    "RENAME k k",
    "RENAMENX k k",
    "COPY k k",
    "COPY k k REPLACE",
    "SCAN 0",
    "SCAN 0 COUNT 100 TYPE list",
    "SCAN n",
    "KEYS k",
    "RANDOMKEY",
    "DBSIZE",
    "FLUSHALL",
    "FLUSHDB ASYNC",
    "RPUSH k v v v",
    "RPUSHX k v",
    "LRANGE k n n",
    "LLEN k",
    "LINDEX k n",
    "LTRIM k n n",
    "SETBIT k n 1",
    "GETBIT k n",
    "BITCOUNT k",
    "BITCOUNT k n n BIT",
    "BITPOS k 0",
    "BITPOS k 1 n n",
    "ZH.CAS k v v",
    "ZH.WAIT k v 0",
    "WATCH k",
    "WATCH k k",
    "UNWATCH",
    "MULTI",
    "MULTI",
    "EXEC",
    "EXEC",
    "EXEC",
    "DISCARD",
    "PING",
    "PING v",
    "ECHO v",
    "TIME",
    "SELECT 0",
    "INFO server",
    "COMMAND COUNT",
    "CONFIG GET max*",
    "CLIENT ID",
    "CLIENT LIST",
    "CLIENT REPLY SKIP",
    "CLIENT REPLY ON",
    "CLUSTER SLOTS",
    "CLUSTER COUNTKEYSINSLOT n",
    "CLUSTER KEYSLOT k",
    "HELLO 3",
    "HELLO 2",
    "HELLO v",
    "ZH.KEYSPACE",
    "ZH.KEYSPACE other",
    "ZH.KEYSPACE default",
    "READONLY",
    "NOSUCH v",
    "GET",
    "SET k",
    "MSET k",
];

fn command_word(kind: char) -> BoxedStrategy<Vec<u8>> {
    let keys = ["a", "b", "c", "{a}1", "{a}2", "{b}1", "", "list", "{list}2"];
    let values = ["", "x", "10", "-7", "3.25", "a longer value", "\r\n", "\0\u{ff}"];
    let numbers = ["0", "1", "-1", "2", "7", "-3", "100", "9223372036854775807", "x"];
    let among =
        |all: &'static [&'static str]| prop::sample::select(all).prop_map(|one| one.as_bytes().to_vec());
    match kind {
        'k' => among(Box::leak(Box::new(keys))).boxed(),
        'v' => among(Box::leak(Box::new(values))).boxed(),
        _ => among(Box::leak(Box::new(numbers))).boxed(),
    }
}

/// An encoded command.
#[derive(Clone)]
struct SentCommand(Vec<u8>);

impl std::fmt::Debug for SentCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

fn command() -> impl Strategy<Value = SentCommand> {
    prop::sample::select(TEMPLATES).prop_flat_map(|template| {
        let words: Vec<BoxedStrategy<Vec<u8>>> = template
            .split(' ')
            .map(|one| match one {
                "k" | "v" | "n" => command_word(one.chars().next().unwrap()),
                other => Just(other.as_bytes().to_vec()).boxed(),
            })
            .collect();
        words.prop_map(|words| encoded(&words))
    })
}

fn encoded(words: &[Vec<u8>]) -> SentCommand {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    SentCommand(bytes)
}

fn connection(world: &ModelWorld) -> Connection {
    Connection::new(1, KeyspaceId(1), "1.2.3.4:5", "5.4.3.2:1", world.now_us())
}

/// One command after the other, all partitions local.
fn one_by_one(commands: &[SentCommand]) -> (ModelWorld, Vec<u8>) {
    let mut world = ModelWorld::new(PARTITIONS, key_slot);
    let mut connection = connection(&world);
    let mut out = Vec::new();
    for SentCommand(command) in commands {
        let received = connection.receive(command, &mut world, &mut out);
        assert_eq!((received.used, received.then), (command.len(), NextStep::More));
    }
    (world, out)
}

/// The same with remote partitions, in pieces, and with units in another order.
fn in_pieces_delayed(
    commands: &[SentCommand],
    away: &[u32],
    cuts: &[usize],
    order: &[usize],
) -> (ModelWorld, Vec<u8>) {
    let mut world = ModelWorld::new(PARTITIONS, key_slot);
    world.remote.extend(away);
    let mut connection = connection(&world);
    let (mut out, mut rest) = (Vec::new(), Vec::new());
    let mut coming: Vec<u8> = commands.iter().flat_map(|sent| sent.0.clone()).collect();
    let mut order = order.iter().cycle();
    let mut cuts = cuts.iter().cycle();
    loop {
        let piece = (*cuts.next().unwrap()).min(coming.len());
        rest.extend(coming.drain(..piece));
        let used = connection.receive(&rest, &mut world, &mut out).used;
        rest.drain(..used);
        let draw = *order.next().unwrap();
        if !draw.is_multiple_of(3) || coming.is_empty() {
            let promised = world.promised();
            world.deliver(draw % promised.max(1), &mut connection, &mut out);
        }
        if coming.is_empty() && rest.is_empty() && world.promised() == 0 {
            return (world, out);
        }
    }
}

/// Commands over several partitions, some remote, in pieces; and the same with one partition.
fn spread_and_not(commands: &[SentCommand], away: &[u32], cut: usize) -> [(ModelWorld, Vec<u8>); 2] {
    [(PARTITIONS, away), (1, &[][..])].map(|(partitions, away)| {
        let mut world = ModelWorld::new(partitions, key_slot);
        world.serves_cross_partition = true;
        world.remote.extend(away);
        let mut connection = connection(&world);
        let (mut out, mut rest) = (Vec::new(), Vec::new());
        let mut coming: Vec<u8> = commands.iter().flat_map(|sent| sent.0.clone()).collect();
        while !coming.is_empty() || !rest.is_empty() || world.promised() > 0 {
            rest.extend(coming.drain(..cut.min(coming.len())));
            let used = connection.receive(&rest, &mut world, &mut out).used;
            rest.drain(..used);
            world.deliver(0, &mut connection, &mut out);
        }
        (world, out)
    })
}

/// Whether the reply does not depend on the partition count.
fn is_partition_independent(command: &SentCommand) -> bool {
    let listing = ["SCAN", "KEYS", "RANDOMKEY", "CLUSTER", "COUNTKEYS", "FLUSH"];
    let text = String::from_utf8_lossy(&command.0).into_owned();
    !listing.iter().any(|one| text.contains(one))
}

fn sorted(world: &mut ModelWorld) -> Vec<String> {
    let mut lines: Vec<String> = contents(world).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn contents(world: &mut ModelWorld) -> String {
    let mut all = String::new();
    for keyspace in [KeyspaceId(1), KeyspaceId(2)] {
        for partition in (0..PARTITIONS).map(PartitionId) {
            let records = world.records(PartitionPlace { keyspace, partition });
            for key in records.keys() {
                let record = records.get(key).unwrap();
                all += &format!("{keyspace:?} {key:?} {:?} {:?}\n", record.contents, record.deadline_ms);
            }
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replies_do_not_depend_on_fragmentation_or_delay(
        commands in prop::collection::vec(command(), 1..60),
        away in prop::collection::vec(0..PARTITIONS, 0..5),
        cuts in prop::collection::vec(1..200usize, 1..8),
        order in prop::collection::vec(0..100usize, 1..20),
    ) {
        let (mut straight, expected) = one_by_one(&commands);
        let (mut delayed, replies) = in_pieces_delayed(&commands, &away, &cuts, &order);
        // The reply of `CLUSTER SLOTS` depends on where partitions are.
        if !commands.iter().any(|one| one.0.windows(5).any(|word| word == b"SLOTS")) {
            prop_assert_eq!(String::from_utf8_lossy(&replies), String::from_utf8_lossy(&expected));
        }
        prop_assert_eq!(contents(&mut delayed), contents(&mut straight));
    }

    #[test]
    fn cross_partition_commands_reply_as_on_one_partition(
        commands in prop::collection::vec(command().prop_filter("the same", is_partition_independent), 1..60),
        away in prop::collection::vec(0..PARTITIONS, 0..5),
        cut in 1..300usize,
    ) {
        let [(mut spread, replies), (mut together, expected)] = spread_and_not(&commands, &away, cut);
        prop_assert_eq!(String::from_utf8_lossy(&replies), String::from_utf8_lossy(&expected));
        prop_assert_eq!(sorted(&mut spread), sorted(&mut together));
    }

    #[test]
    fn pipeline_in_single_bytes_gets_same_replies(commands in prop::collection::vec(command(), 1..20)) {
        let (_, expected) = one_by_one(&commands);
        let (_, replies) = in_pieces_delayed(&commands, &[], &[1], &[1]);
        prop_assert_eq!(String::from_utf8_lossy(&replies), String::from_utf8_lossy(&expected));
    }

    #[test]
    fn any_bytes_are_accepted_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 1..300usize) {
        let mut world = ModelWorld::new(PARTITIONS, key_slot);
        let mut connection = connection(&world);
        let mut rest: Vec<u8> = Vec::new();
        for piece in bytes.chunks(cut) {
            rest.extend_from_slice(piece);
            let received = connection.receive(&rest, &mut world, &mut Vec::new());
            rest.drain(..received.used);
        }
    }
}
