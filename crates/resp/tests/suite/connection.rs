//! Behaviour that recordings of Redis do not show: partitions, redirections, limits, waits,
//! failures.

use zerohop_placement::hash::key_slot;
use zerohop_resp::limits::*;
use zerohop_resp::model::ModelWorld;
use zerohop_resp::{Connection, ConnectionWorld, NextStep, ReceiveResult, SlotService, Ticket};
use zerohop_wire::ids::KeyspaceId;

/// A client of a world of four partitions. `{a}` is in partition 3, `{b}` in 0, `{c}` in 1.
pub(crate) struct ModelClient {
    pub(crate) world: ModelWorld,
    pub(crate) connection: Connection,
    pub(crate) unread: Vec<u8>,
    pub(crate) out: Vec<u8>,
    pub(crate) then: NextStep,
}

impl ModelClient {
    pub(crate) fn new() -> ModelClient {
        let world = ModelWorld::new(4, key_slot);
        let connection = Connection::new(7, KeyspaceId(1), "1.2.3.4:5", "5.4.3.2:1", world.now_us());
        ModelClient { world, connection, unread: Vec::new(), out: Vec::new(), then: NextStep::More }
    }

    /// Sends bytes after those left over from before.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        let ReceiveResult { used, then } =
            self.connection.receive(&self.unread, &mut self.world, &mut self.out);
        self.unread.drain(..used);
        self.then = then;
    }

    /// The replies since the last call.
    pub(crate) fn replies(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.out)).into_owned()
    }

    /// Sends inline commands, one per line, and returns the replies so far.
    pub(crate) fn send(&mut self, lines: &str) -> String {
        for line in lines.lines() {
            self.bytes(format!("{}\r\n", line.trim()).as_bytes());
        }
        self.replies()
    }

    /// Executes a unit with a later reply.
    pub(crate) fn deliver(&mut self, at: usize) -> String {
        self.world.deliver(at, &mut self.connection, &mut self.out);
        self.replies()
    }

    pub(crate) fn deliver_all(&mut self) -> String {
        let rest = std::mem::take(&mut self.unread);
        self.unread = self.world.deliver_all(&mut self.connection, rest, &mut self.out);
        self.replies()
    }
}

const CROSS_SLOT: &str = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";

#[test]
fn keys_of_several_partitions_are_refused_together() {
    let mut client = ModelClient::new();
    for command in
        ["MGET a b", "MSET a 1 b 2", "DEL {a}1 {b}1", "EXISTS a b", "RENAME a b", "COPY a b", "WATCH a b"]
    {
        assert_eq!(client.send(command), CROSS_SLOT, "{command}");
    }
    // Keys of one partition may have different slots.
    assert_ne!(key_slot(b"a"), key_slot(b"z"));
    assert_eq!(client.send("MSET {a}1 x {a}2 y\nMGET {a}1 {a}2"), "+OK\r\n*2\r\n$1\r\nx\r\n$1\r\ny\r\n");
}

#[test]
fn transaction_over_two_partitions_is_refused() {
    let mut client = ModelClient::new();
    let replies = client.send("MULTI\nSET {a}1 1\nSET {b}1 1\nEXEC\nGET {a}1");
    let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n$-1\r\n";
    assert_eq!(replies, format!("+OK\r\n+QUEUED\r\n{CROSS_SLOT}{aborted}"));
    // A watched key counts too.
    let replies = client.send("WATCH {a}1\nMULTI\nSET {b}1 1\nEXEC");
    assert!(replies.starts_with(&format!("+OK\r\n+OK\r\n{CROSS_SLOT}-EXECABORT")), "{replies}");
    let replies = client.send("WATCH {a}1\nWATCH {b}1\nUNWATCH\nWATCH {b}1");
    assert_eq!(replies, format!("+OK\r\n{CROSS_SLOT}+OK\r\n+OK\r\n"));
    assert_eq!(client.send("UNWATCH\nMULTI\nDBSIZE\nDISCARD"), format!("+OK\r\n+OK\r\n{CROSS_SLOT}+OK\r\n"));
}

#[test]
fn connection_queries_are_allowed_in_transaction() {
    let mut client = ModelClient::new();
    let replies =
        client.send("MULTI\nCLIENT ID\nSET k v\nCLIENT GETNAME\nCLUSTER KEYSLOT k\nINFO nothing\nEXEC");
    let slot = key_slot(b"k");
    let expected = format!("*5\r\n:7\r\n+OK\r\n$-1\r\n:{slot}\r\n$0\r\n\r\n");
    assert_eq!(replies, format!("+OK\r\n{}{expected}", "+QUEUED\r\n".repeat(5)));
    let refused = "-ERR Command not allowed inside a transaction\r\n";
    for command in ["CLIENT SETNAME x", "CLIENT REPLY OFF", "HELLO 3", "ZH.KEYSPACE other"] {
        assert_eq!(client.send(&format!("MULTI\n{command}\nDISCARD")), format!("+OK\r\n{refused}+OK\r\n"));
    }
}

#[test]
fn replies_keep_order_when_units_complete_out_of_order() {
    let mut client = ModelClient::new();
    client.world.remote.extend([0, 1, 3]);
    let replies = client.send("SET {a}1 first\nSET {b}1 second\nPING\nGET {c}1\nGET {a}1\nPING last");
    assert_eq!((replies.as_str(), client.world.promised()), ("", 4));
    assert_eq!(client.deliver(2), "", "the third reply waits for the first");
    assert_eq!(client.deliver(1), "");
    assert_eq!(client.deliver(0), "+OK\r\n+OK\r\n+PONG\r\n$-1\r\n");
    assert_eq!(client.deliver(0), "$5\r\nfirst\r\n$4\r\nlast\r\n");
    assert!(!client.connection.is_waiting());
}

#[test]
fn cluster_aware_client_is_redirected_to_owner() {
    let mut client = ModelClient::new();
    client.world.remote.insert(3);
    client.world.moves = true;
    // Before it asks for the layout, its commands are forwarded.
    assert_eq!(client.send("SET {a}1 x"), "");
    assert_eq!(client.deliver_all(), "+OK\r\n");
    let slots = client.send("CLUSTER SLOTS");
    assert!(
        slots.starts_with("*4\r\n*5\r\n:0\r\n:4095\r\n*4\r\n$9\r\n127.0.0.1\r\n:7001\r\n$40\r\naaaa"),
        "{slots}"
    );
    let moved = format!("-MOVED {} 127.0.0.1:7002\r\n", key_slot(b"a"));
    assert_eq!(client.send("GET {a}1"), moved);
    assert_eq!(client.send("ASKING\nREADONLY\nREADWRITE\nGET {a}2"), format!("+OK\r\n+OK\r\n+OK\r\n{moved}"));
    assert_eq!(client.send("GET {b}1"), "$-1\r\n");
    assert!(client.send("MULTI\nGET {a}1\nEXEC").contains(&moved));
}

#[test]
fn cluster_commands_reply_in_redis_format() {
    let mut client = ModelClient::new();
    client.world.remote.insert(3);
    assert_eq!(client.send("CLUSTER KEYSLOT somekey"), ":11058\r\n");
    assert_eq!(client.send("CLUSTER MYID"), format!("$40\r\n{}\r\n", "a".repeat(40)));
    let info = client.send("CLUSTER INFO");
    for line in [
        "cluster_enabled:1\r\n",
        "cluster_state:ok\r\n",
        "cluster_slots_assigned:16384\r\n",
        "cluster_size:2\r\n",
    ] {
        assert!(info.contains(line), "{info}");
    }
    client.world.set_slot_service(SlotService { failed: 100, suspected: 28, is_complete: false });
    let info = client.send("CLUSTER INFO");
    for line in [
        "cluster_state:fail\r\n",
        "cluster_slots_ok:16256\r\n",
        "cluster_slots_pfail:28\r\n",
        "cluster_slots_fail:100\r\n",
    ] {
        assert!(info.contains(line), "{info}");
    }
    let nodes = client.send("CLUSTER NODES");
    assert!(nodes.contains(" 127.0.0.1:7001@0 myself,master - 0 0 1 connected 0-12287\n"), "{nodes}");
    assert!(nodes.contains(" 127.0.0.1:7002@0 master - 0 0 1 connected 12288-16383\n"), "{nodes}");
    // This one is down and has copies of slots of both, more of the first one's.
    let copies = format!(" 127.0.0.1:7003@0 slave,fail {} 0 0 1 disconnected\n", "a".repeat(40));
    assert!(nodes.contains(&copies), "{nodes}");
    let shards = client.send("HELLO 3\nCLUSTER SHARDS");
    assert!(shards.contains("*2\r\n%2\r\n$5\r\nslots\r\n*6\r\n:0\r\n:4095\r\n"), "{shards}");
    assert_eq!(shards.matches("$7\r\nreplica\r\n$6\r\nhealth\r\n$6\r\nonline\r\n").count(), 2, "{shards}");
    assert_eq!(shards.matches("$7\r\nreplica\r\n$6\r\nhealth\r\n$6\r\nfailed\r\n").count(), 2, "{shards}");
    let slot = key_slot(b"{b}");
    client.send("SET {b}1 x\nSET {b}2 x\nRPUSH {b}3 x\nSET {b}4 x\nSET {b}5 x");
    assert_eq!(client.send(&format!("CLUSTER COUNTKEYSINSLOT {slot}")), ":5\r\n");
    assert_eq!(client.send(&format!("CLUSTER COUNTKEYSINSLOT {}", slot + 1)), ":0\r\n");
    assert_eq!(client.send("CLUSTER COUNTKEYSINSLOT 16384"), "-ERR Invalid slot\r\n");
}

#[test]
fn commands_over_all_partitions_see_all_of_them_and_end() {
    for is_away in [false, true] {
        let mut client = ModelClient::new();
        for number in 0..100 {
            client.send(&format!("SET key{number} x"));
        }
        if is_away {
            client.world.remote.extend([0, 2]);
        }
        let mut query = |line: &str| {
            let replies = client.send(line);
            replies + &client.deliver_all()
        };
        assert_eq!(query("DBSIZE"), ":100\r\n");
        let keys = query("KEYS key1?");
        assert_eq!((keys.starts_with("*10\r\n"), keys.matches("key1").count()), (true, 10), "{keys}");
        let mut found = std::collections::BTreeSet::new();
        let mut cursor = "0".to_owned();
        loop {
            let reply = query(&format!("SCAN {cursor} COUNT 7"));
            let mut lines = reply.lines().skip(2);
            cursor = lines.next().unwrap().to_owned();
            found.extend(lines.filter(|line| line.starts_with("key")).map(str::to_owned));
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(found.len(), 100);
        assert!(query("RANDOMKEY").contains("key"));
        assert_eq!(query("FLUSHALL"), "+OK\r\n");
        assert_eq!(query("DBSIZE"), ":0\r\n");
        assert_eq!(query("RANDOMKEY"), "$-1\r\n");
        assert_eq!(query("SCAN 999999999999999"), "*2\r\n$1\r\n0\r\n*0\r\n");
    }
}

/// A client that sends several commands at once is served as if it had waited for each reply.
#[test]
fn commands_over_all_keys_see_earlier_writes_of_their_connection() {
    let mut client = ModelClient::new();
    client.world.remote.extend(0..4);
    let mut replies = client.send(
        "SET {a}1 x\nSET {b}2 y\nDBSIZE\nDEL {a}1\nKEYS *\nFLUSHALL\nSET {c}3 z\nRANDOMKEY\nSCAN 0 COUNT 100",
    );
    while client.world.promised() > 0 {
        // The other instances execute the newest unit first.
        replies += &client.deliver(client.world.promised() - 1);
        client.bytes(b"");
        replies += &client.replies();
    }
    let one_key = |key: &str| format!("*1\r\n$4\r\n{key}\r\n");
    let (flushed, random) = ("+OK\r\n+OK\r\n", "$4\r\n{c}3\r\n");
    let scanned = format!("*2\r\n$1\r\n0\r\n{}", one_key("{c}3"));
    assert_eq!(replies, format!("+OK\r\n+OK\r\n:2\r\n:1\r\n{}{flushed}{random}{scanned}", one_key("{b}2")));
}

#[test]
fn all_partitions_command_survives_a_split() {
    for pages_before in 0..20 {
        let mut client = ModelClient::new();
        for number in 0..100 {
            client.send(&format!("SET key{number} x"));
        }
        client.world.remote.extend(0..8);
        let query = |client: &mut ModelClient, line: &str| {
            let mut replies = client.send(line);
            (0..pages_before).for_each(|_| replies += &client.deliver(0));
            client.world.split();
            replies += &client.deliver_all();
            client.world.remote.extend(0..512);
            replies
        };
        let keys = query(&mut client, "KEYS *");
        let mut found_keys: Vec<&str> = keys.lines().filter(|line| line.starts_with("key")).collect();
        assert!(keys.starts_with("*100\r\n"), "{keys}");
        found_keys.sort_unstable();
        found_keys.dedup();
        assert_eq!(found_keys.len(), 100, "after {pages_before} pages");
        assert_eq!(query(&mut client, "DBSIZE"), ":100\r\n", "after {pages_before} pages");
        let mut found = std::collections::BTreeSet::new();
        let mut cursor = "0".to_owned();
        for splits in 0.. {
            let reply = if splits < 3 {
                query(&mut client, &format!("SCAN {cursor} COUNT 17"))
            } else {
                client.send(&format!("SCAN {cursor} COUNT 17")) + &client.deliver_all()
            };
            let mut lines = reply.lines().skip(2);
            cursor = lines.next().unwrap().to_owned();
            found.extend(lines.filter(|line| line.starts_with("key")).map(str::to_owned));
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(found.len(), 100, "after {pages_before} pages");
    }
}

#[test]
fn transaction_is_routed_by_partitions_after_split() {
    let mut client = ModelClient::new();
    // Keys in the first of four partitions, and in the first two of eight.
    let eighth = |key: &String| key_slot(key.as_bytes()) / 2048;
    let keys = || (0..).map(|number| format!("key{number}"));
    let one = keys().find(|key| eighth(key) == 0).unwrap();
    let other = keys().find(|key| eighth(key) == 1).unwrap();
    let (one, other) = (one.as_str(), other.as_str());
    let place = |client: &ModelClient, key: &str| client.world.partition_of(KeyspaceId(1), key.as_bytes());
    assert_eq!(place(&client, one), place(&client, other));
    client.world.serves_cross_partition = true;
    client.send(&format!("SET {one} x\nWATCH {other}\nMULTI\nSET {one} y"));
    client.world.split();
    assert_ne!(place(&client, one), place(&client, other));
    let replies = client.send(&format!("GET {other}\nSET {other} z\nEXEC\nGET {one}\nGET {other}"));
    assert_eq!(replies, "+QUEUED\r\n+QUEUED\r\n*3\r\n+OK\r\n$-1\r\n+OK\r\n$1\r\ny\r\n$1\r\nz\r\n");
    client.send(&format!("WATCH {one}"));
    client.world.split();
    client.send(&format!("WATCH {one}\nSET {one} changed\nMULTI\nSET {one} lost"));
    assert_eq!(client.send("EXEC"), "*-1\r\n");
}

#[test]
fn starting_node_answers_cross_partition_commands_with_tryagain() {
    let mut client = ModelClient::new();
    client.world.serves_cross_partition_soon = true;
    for command in ["MGET a b", "MSET a 1 b 2", "WATCH a b"] {
        assert!(client.send(command).starts_with("-TRYAGAIN"), "{command}");
    }
    assert!(client.send("WATCH {a}1\nWATCH {b}1").starts_with("+OK\r\n-TRYAGAIN"));
    let replies = client.send("UNWATCH\nMULTI\nSET {a}1 1\nSET {b}1 1\nEXEC");
    assert!(replies.starts_with("+OK\r\n+OK\r\n+QUEUED\r\n-TRYAGAIN"), "{replies}");
    (client.world.serves_cross_partition_soon, client.world.serves_cross_partition) = (false, true);
    assert_eq!(client.send("MSET a 1 b 2"), "+OK\r\n");
    let mut client = ModelClient::new();
    client.world.serves_cross_partition_soon = true;
    client.send("CLUSTER SLOTS");
    assert_eq!(client.send("MGET a b"), CROSS_SLOT);
}

#[test]
fn later_commands_wait_for_command_over_all_partitions() {
    let mut client = ModelClient::new();
    client.send("SET {a}1 x");
    client.world.remote.extend([0, 1]);
    assert_eq!(client.send("FLUSHALL\nGET {a}1\nSET {a}1 y"), "");
    assert_eq!(client.then, NextStep::PauseInput);
    assert_eq!(client.deliver_all(), "+OK\r\n$-1\r\n+OK\r\n");
}

#[test]
fn change_of_watched_key_discards_transaction() {
    for is_away in [false, true] {
        let mut client = ModelClient::new();
        if is_away {
            client.world.remote.insert(3);
        }
        let mut query = |lines: &str| {
            let replies = client.send(lines);
            replies + &client.deliver_all()
        };
        query("SET {a}1 x");
        // Commands pipelined after WATCH wait until the versions are known.
        assert_eq!(query("WATCH {a}1\nMULTI\nSET {a}1 y\nEXEC"), "+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n");
        assert_eq!(
            query("WATCH {a}1\nSET {a}1 z\nMULTI\nSET {a}1 y\nEXEC"),
            "+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n*-1\r\n"
        );
        assert_eq!(query("GET {a}1"), "$1\r\nz\r\n");
        // A new deadline is a change too, and so is removal.
        let refused = "+OK\r\n:1\r\n+OK\r\n+QUEUED\r\n*-1\r\n";
        assert_eq!(query("WATCH {a}1\nEXPIRE {a}1 100\nMULTI\nPING\nEXEC"), refused);
        assert_eq!(query("WATCH {a}1\nDEL {a}1\nMULTI\nPING\nEXEC"), refused);
    }
}

#[test]
fn expired_record_counts_as_changed() {
    let mut client = ModelClient::new();
    client.send("SET k v PX 500\nWATCH k\nMULTI\nPING");
    client.world.now_ms += 500;
    assert_eq!(client.send("EXEC\nEXISTS k\nTTL k"), "*-1\r\n:0\r\n:-2\r\n");
}

#[test]
fn compare_and_swap_returns_previous_value() {
    let mut client = ModelClient::new();
    let replies = client.send("ZH.CAS k a b\nSET k a EX 100\nZH.CAS k a b\nZH.CAS k a c\nGET k\nTTL k");
    assert_eq!(
        replies,
        "*2\r\n:0\r\n$-1\r\n+OK\r\n*2\r\n:1\r\n$1\r\na\r\n*2\r\n:0\r\n$1\r\nb\r\n$1\r\nb\r\n:100\r\n"
    );
    assert!(client.send("RPUSH l a\nZH.CAS l a b").contains("-WRONGTYPE"));
}

#[test]
fn wait_ends_with_expected_value_or_at_time_out() {
    let mut client = ModelClient::new();
    assert_eq!(client.send("SET k a\nZH.WAIT k a 1000\nZH.WAIT k b 0"), "+OK\r\n:1\r\n:0\r\n");
    assert_eq!(client.send("ZH.WAIT k b 1000\nPING"), "");
    assert_eq!((client.then, client.world.waiting()), (NextStep::PauseInput, 1));
    client.world.now_ms += 999;
    client.world.run_waiting(&mut client.connection, &mut client.out);
    assert_eq!(client.replies(), "");
    client.world.now_ms += 1;
    assert!(client.world.run_waiting(&mut client.connection, &mut client.out), "it wants to go on");
    client.bytes(b"");
    assert_eq!(client.replies(), ":0\r\n+PONG\r\n");
    // Another client sets it.
    assert_eq!(client.send("ZH.WAIT k b 1000"), "");
    let mut other = Connection::new(8, KeyspaceId(1), "", "", 0);
    other.receive(b"SET k b\r\n", &mut client.world, &mut Vec::new());
    client.world.run_waiting(&mut client.connection, &mut client.out);
    assert_eq!(client.replies(), ":1\r\n");
    // In a transaction nothing waits.
    assert_eq!(client.send("MULTI\nZH.WAIT k x 1000\nEXEC"), "+OK\r\n+QUEUED\r\n*1\r\n:0\r\n");
    for wrong in ["-1", "x", "86400001"] {
        assert!(client.send(&format!("ZH.WAIT k a {wrong}")).starts_with("-ERR timeout"), "{wrong}");
    }
}

#[test]
fn keyspaces_are_apart() {
    let mut client = ModelClient::new();
    assert_eq!(
        client.send("ZH.KEYSPACE\nSET k 1\nZH.KEYSPACE other\nGET k"),
        "$7\r\ndefault\r\n+OK\r\n+OK\r\n$-1\r\n"
    );
    assert_eq!(client.send("SET k 2\nZH.KEYSPACE default\nGET k"), "+OK\r\n+OK\r\n$1\r\n1\r\n");
    assert!(client.send("ZH.KEYSPACE nowhere").starts_with("-ERR there is no keyspace"));
    assert_eq!(client.send("ZH.KEYSPACE"), "$7\r\ndefault\r\n");
}

#[test]
fn a_failure_undoes_the_whole_transaction() {
    let mut client = ModelClient::new();
    client.send("SET {a}1 before\nRPUSH {a}list x");
    let long = "x".repeat(65_537);
    let set = |key: &str| format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n$1\r\ny\r\n", key.len());
    client.bytes(format!("MULTI\r\n{}{}EXEC\r\n", set("{a}1"), set(&format!("{{a}}{long}"))).as_bytes());
    let replies = client.replies();
    assert!(replies.starts_with("+OK\r\n+QUEUED\r\n+QUEUED\r\n-ERR "), "{replies}");
    assert_eq!(client.send("GET {a}1"), "$6\r\nbefore\r\n");
    client.world.is_full = true;
    assert!(client.send("SET {a}1 after").starts_with("-OOM "));
    assert_eq!(client.send("DEL {a}list\nGET {a}1"), ":1\r\n$6\r\nbefore\r\n");
}

#[test]
fn client_reply_off_and_skip_suppress_replies() {
    for is_away in [false, true] {
        let mut client = ModelClient::new();
        if is_away {
            client.world.remote.extend(0..4);
        }
        client.send("CLIENT REPLY OFF\nSET {a}1 x\nGET {a}1\nNOSUCH\nDBSIZE\nCLIENT REPLY ON\nGET {a}1");
        let replies = client.replies() + &client.deliver_all();
        assert_eq!(replies.replace("+OK\r\n$1\r\nx\r\n", ""), "", "{replies}");
        client.send("CLIENT REPLY SKIP\nGET {a}1\nPING");
        let replies = client.replies() + &client.deliver_all();
        assert_eq!(replies.replace("+PONG\r\n", ""), "", "{replies}");
    }
}

#[test]
fn clients_are_listed() {
    let mut client = ModelClient::new();
    client.send("CLIENT SETNAME me\nCLIENT SETINFO LIB-NAME lib\nCLIENT SETINFO lib-ver 1.0");
    assert_eq!(client.send("CLIENT ID"), ":7\r\n");
    let list = client.send("CLIENT LIST");
    let own = "id=7 addr=1.2.3.4:5 laddr=5.4.3.2:1 fd=0 name=me age=0 idle=0 flags=N db=0";
    assert!(list.contains(own) && list.contains("lib-name=lib lib-ver=1.0\nid=8 "), "{list}");
    assert!(!client.send("CLIENT LIST ID 7").contains("id=8 "));
    assert!(client.send("CLIENT INFO").contains(own));
    assert!(client.send("CLIENT SETINFO lib-name \"a b\"").starts_with("-ERR lib-name cannot contain"));
    assert_eq!(client.send("CLIENT SETINFO foo x"), "-ERR Unrecognized option 'foo'\r\n");
}

#[test]
fn server_commands_describe_server() {
    let mut client = ModelClient::new();
    client.send("SET k v");
    let info = client.send("INFO");
    for line in
        ["# Server\r\n", "redis_version:7.", "zerohop_version:0.1.0", "cluster_enabled:1", "db0:keys=1,"]
    {
        assert!(info.contains(line), "{line} {info}");
    }
    let info = client.send("INFO keyspace");
    assert!(info.contains("# Keyspace") && !info.contains("# Server"), "{info}");
    assert_eq!(client.send("TIME"), "*2\r\n$10\r\n1700000000\r\n$1\r\n7\r\n");
    assert_eq!(client.send("DEBUG SLEEP 0.5"), "+OK\r\n");
    assert_eq!(client.world.slept_ms, 500);
    assert!(client.send("COMMAND DOCS get").contains("$7\r\nsummary\r\n"));
    let count: i64 = client.send("COMMAND COUNT")[1..].trim().parse().unwrap();
    assert!(client.send("COMMAND").starts_with(&format!("*{count}\r\n")));
}

#[test]
fn quitting_closes_once_all_replies_are_out() {
    let mut client = ModelClient::new();
    client.world.remote.insert(3);
    assert_eq!(client.send("GET {a}1\nQUIT\nPING"), "");
    assert_eq!(client.then, NextStep::PauseInput);
    assert!(client.world.deliver(0, &mut client.connection, &mut client.out));
    assert_eq!(client.replies(), "$-1\r\n+OK\r\n");
    client.bytes(b"");
    assert_eq!((client.then, client.replies().as_str()), (NextStep::Close, ""));
}

#[test]
fn invalid_command_bytes_close_connection_after_error() {
    for (bytes, text) in [
        (&b"*1\r\n:1\r\n"[..], "-ERR Protocol error: expected '$', got ':'\r\n"),
        (b"*1\r\n$536870913\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        (b"*1\r\n$1073741824\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        (b"*2000000\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
        (b"GET \"k\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"),
    ] {
        let mut client = ModelClient::new();
        client.bytes(b"PING\r\n");
        client.bytes(bytes);
        assert_eq!(
            (client.then, client.replies().as_str()),
            (NextStep::Close, format!("+PONG\r\n{text}").as_str())
        );
    }
}

#[test]
fn input_pauses_at_limit_of_pending_replies() {
    let mut client = ModelClient::new();
    client.world.remote.insert(3);
    let commands = "GET {a}1\r\n".repeat(PENDING_MAX + 10);
    client.bytes(commands.as_bytes());
    assert_eq!((client.then, client.world.promised()), (NextStep::PauseInput, PENDING_MAX));
    assert_eq!(client.unread.len(), 10 * "GET {a}1\r\n".len());
    assert_eq!(client.deliver_all(), "$-1\r\n".repeat(PENDING_MAX + 10));
}

#[test]
fn waiting_replies_are_bounded() {
    let mut client = ModelClient::new();
    client.send(&format!("SET {{b}}1 {}", "x".repeat(60_000)));
    client.world.remote.insert(3);
    client.bytes(format!("GET {{a}}1\r\n{}", "GET {b}1\r\n".repeat(1000)).as_bytes());
    assert_eq!(client.then, NextStep::PauseInput);
    let accepted = 1000 - client.unread.len() / "GET {b}1\r\n".len();
    assert_eq!(accepted, WAITING_REPLY_BYTES_MAX.div_ceil(60_010));
}

#[test]
fn client_with_too_many_waiting_replies_is_closed() {
    let mut client = ModelClient::new();
    let value = vec![b'x'; BULK_BYTES_MAX];
    let head = format!("*3\r\n$3\r\nSET\r\n$4\r\n{{b}}1\r\n${}\r\n", value.len());
    client.bytes(&[head.as_bytes(), &value, b"\r\n"].concat());
    client.world.remote.extend([0, 3]);
    client.send(&["GET {a}1\n", &"GET {b}1\n".repeat(20)].concat());
    let before_end = WAITING_REPLY_BYTES_CLOSE / (value.len() + 13);
    for _ in 0..before_end {
        assert!(!client.world.deliver(1, &mut client.connection, &mut client.out));
    }
    assert!(client.world.deliver(1, &mut client.connection, &mut client.out));
    client.bytes(b"PING\r\n");
    assert_eq!((client.then, client.connection.is_waiting()), (NextStep::Close, false));
    // A later reply is ignored.
    client.world.deliver(0, &mut client.connection, &mut client.out);
    assert!(client.out.is_empty(), "nothing is sent out of its order");
}

#[test]
fn input_pauses_while_client_does_not_read_replies() {
    let mut client = ModelClient::new();
    client.send(&format!("SET k {}", "x".repeat(60_000)));
    client.bytes("GET k\r\n".repeat(100).as_bytes());
    assert_eq!(client.then, NextStep::PauseInput);
    assert!(client.out.len() < OUTPUT_BYTES_MAX + 60_010, "{}", client.out.len());
    client.replies();
    client.bytes(b"");
    assert_eq!(client.then, NextStep::PauseInput);
    while client.then == NextStep::PauseInput {
        client.replies();
        client.bytes(b"");
    }
    assert!(client.unread.is_empty());
}

#[test]
fn unexpected_ticket_is_ignored() {
    let mut client = ModelClient::new();
    let strange = Ticket { number: 99, part: 0 };
    assert!(!client.connection.complete(strange, b"+lost\r\n", &mut client.world, &mut client.out));
    assert_eq!(client.send("PING"), "+PONG\r\n");
}

#[test]
fn recommended_help_lists_the_subcommands() {
    let mut client = ModelClient::new();
    for (name, one) in
        [("CLIENT", "SETNAME name"), ("CLUSTER", "SLOTS"), ("COMMAND", "COUNT"), ("CONFIG", "SET name")]
    {
        let refused = client.send(&format!("{name} NOSUCH"));
        assert_eq!(refused, format!("-ERR unknown subcommand 'NOSUCH'. Try {name} HELP.\r\n"));
        let help = client.send(&format!("{name} help"));
        let (head, lines) = help.split_once("\r\n").unwrap();
        let count = head.strip_prefix('*').and_then(|count| count.parse().ok());
        assert_eq!(Some(lines.lines().count()), count, "{help}");
        assert!(lines.starts_with(&format!("+{name} <subcommand>")), "{help}");
        assert!(lines.contains(&format!("\r\n+{one}")), "{help}");
        assert!(lines.ends_with("+HELP\r\n+    Print this help.\r\n"), "{help}");
        let lower = name.to_ascii_lowercase();
        let refused = client.send(&format!("{name} HELP x"));
        assert_eq!(refused, format!("-ERR wrong number of arguments for '{lower}|help' command\r\n"));
    }
}
