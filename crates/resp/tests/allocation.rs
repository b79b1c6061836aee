//! Memory of a connection: none for common commands, and at worst no more than was received.
#![allow(unsafe_code, reason = "a test that counts allocations")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::Range;

use zerohop_resp::{
    Args, Connection, ConnectionWorld, Deadline, Info, NextStep, PartitionPlace, RecordType, Records,
    Scratch, ServerInfo, Ticket, Unit, UnitResult, WrongPassword, execute,
};
use zerohop_wire::Failure;
use zerohop_wire::ids::{KeyspaceId, PartitionId, Timestamp};

/// Counts allocated bytes per thread.
struct CountingAllocator;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.with(|bytes| bytes.set(bytes.get() + layout.size()));
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

/// Bytes that this thread allocates while it does `work`.
fn allocated(work: impl FnOnce()) -> usize {
    let before = BYTES.with(Cell::get);
    work();
    BYTES.with(Cell::get) - before
}

/// The same bytes record, and the same list, for every key.
struct FixedRecords;

impl Records for FixedRecords {
    fn now_ms(&self) -> u64 {
        1
    }

    fn inspect(&mut self, key: &[u8]) -> Result<Option<Info>, Failure<'static>> {
        let record = if key.starts_with(b"list") { RecordType::List } else { RecordType::Bytes };
        Ok(Some(Info { record, length: 2, version: Timestamp(1), deadline_ms: None }))
    }

    fn lookup(
        &mut self,
        _key: &[u8],
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<RecordType>, Failure<'static>> {
        take(b"12");
        Ok(Some(RecordType::Bytes))
    }

    fn read(&mut self, _key: &[u8], range: Range<u64>, into: &mut Vec<u8>) -> Result<(), Failure<'static>> {
        into.extend_from_slice(&b"12"[range.start as usize..range.end as usize]);
        Ok(())
    }

    fn values(
        &mut self,
        _key: &[u8],
        range: Range<u64>,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Failure<'static>> {
        let _ = range.into_iter().all(|_| each(b"value"));
        Ok(())
    }

    fn put(&mut self, _: &[u8], _: &[u8], _: Deadline) -> Result<(), Failure<'static>> {
        Ok(())
    }

    fn extend(&mut self, _: &[u8], _: &[u8]) -> Result<(), Failure<'static>> {
        Ok(())
    }

    fn append(&mut self, _: &[u8], _: Args<'_>) -> Result<(), Failure<'static>> {
        Ok(())
    }

    fn trim(&mut self, _: &[u8], _: Range<u64>) -> Result<(), Failure<'static>> {
        Ok(())
    }

    fn remove(&mut self, _: &[u8]) -> Result<bool, Failure<'static>> {
        Ok(true)
    }

    fn set_deadline(&mut self, _: &[u8], _: Option<u64>) -> Result<(), Failure<'static>> {
        Ok(())
    }

    fn scan(&mut self, _: u32, _: &mut dyn FnMut(&[u8])) -> Result<Option<u32>, Failure<'static>> {
        Ok(None)
    }

    fn partitions(&self) -> u32 {
        1
    }

    fn count(&mut self) -> u64 {
        1
    }
}

/// One partition, which executes at once or never.
struct LocalPartition {
    scratch: Scratch,
    is_remote: bool,
}

impl ConnectionWorld for LocalPartition {
    fn run(&mut self, _: PartitionPlace, _: Ticket, unit: &Unit<'_>, reply: &mut Vec<u8>) -> UnitResult {
        if self.is_remote {
            return UnitResult::Later;
        }
        assert_eq!(
            execute(unit, &mut FixedRecords, &mut self.scratch, reply),
            zerohop_resp::ExecutionOutcome::Done
        );
        UnitResult::Done
    }

    fn keyspace(&self, _: &[u8]) -> Option<KeyspaceId> {
        None
    }

    fn keyspace_name(&self, _: KeyspaceId) -> String {
        String::new()
    }

    fn partitions(&self, _: KeyspaceId) -> u32 {
        1
    }

    fn partition_of(&self, _: KeyspaceId, _: &[u8]) -> PartitionId {
        PartitionId(0)
    }

    fn slot_of(&self, _: &[u8]) -> u16 {
        0
    }

    fn partition_of_slot(&self, _: KeyspaceId, _: u16) -> Option<PartitionId> {
        None
    }

    fn moved(&self, _: PartitionPlace) -> Option<(String, u16)> {
        None
    }

    fn layout(&self, _: KeyspaceId) -> zerohop_resp::Layout {
        zerohop_resp::Layout::default()
    }

    fn map_epoch(&self) -> u64 {
        1
    }

    fn server(&self) -> ServerInfo {
        ServerInfo::default()
    }

    fn own_keys(&self, _: KeyspaceId) -> u64 {
        0
    }

    fn now_us(&self) -> u64 {
        1
    }

    fn other_clients(&self, _: u64, _: &mut dyn FnMut(&str)) {}

    fn authenticate(&mut self, _: &[u8], _: &[u8]) -> Result<(), WrongPassword> {
        Ok(())
    }

    fn needs_authentication(&self) -> bool {
        false
    }
}

fn connection() -> Connection {
    Connection::new(1, KeyspaceId(1), "", "", 0)
}

fn encoded(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let bulks = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), bulks.collect::<String>())
}

#[test]
fn common_commands_allocate_nothing() {
    let commands = [
        "GET key:000000000001",
        "SET key:000000000001 xxx",
        "SET key:1 xxx EX 100",
        "INCR counter",
        "RPUSH list value value value",
        "LRANGE list 0 1",
        "MSET a 1 b 2 c 3 d 4 e 5 f 6 g 7 h 8 i 9 j 10",
        "MGET a b c",
        "DEL a",
        "EXISTS a",
        "EXPIRE a 10",
        "TTL a",
        "APPEND a b",
        "STRLEN a",
        "GETRANGE a 0 1",
        "SETBIT a 3 1",
        "GETBIT a 3",
        "LLEN list",
        "PING",
        "ECHO x",
        "MULTI",
        "DISCARD",
    ];
    let bytes: String = commands.into_iter().map(encoded).collect();
    let mut world = LocalPartition { scratch: Scratch::default(), is_remote: false };
    let (mut connection, mut out) = (connection(), Vec::with_capacity(1 << 20));
    for round in 0..3 {
        out.clear();
        let bytes_allocated = allocated(|| {
            let received = connection.receive(bytes.as_bytes(), &mut world, &mut out);
            assert_eq!((received.used, received.then), (bytes.len(), NextStep::More));
        });
        // The first round allocates buffers that are kept.
        assert!(round == 0 || bytes_allocated == 0, "{bytes_allocated} bytes");
    }
    assert!(out.starts_with(b"$2\r\n12\r\n+OK\r\n+OK\r\n:13\r\n:5\r\n"), "{}", String::from_utf8_lossy(&out));
}

#[test]
fn late_replies_reuse_buffers() {
    let bytes = encoded("GET k").repeat(16);
    let mut world = LocalPartition { scratch: Scratch::default(), is_remote: true };
    let (mut connection, mut out) = (connection(), Vec::with_capacity(1 << 20));
    let mut number = 0;
    for round in 0..4 {
        out.clear();
        let bytes_allocated = allocated(|| {
            connection.receive(bytes.as_bytes(), &mut world, &mut out);
            // The last one first: all but one must wait.
            for part in (1..=16).rev() {
                connection.complete(
                    Ticket { number: number + part, part: 0 },
                    b"$1\r\nx\r\n",
                    &mut world,
                    &mut out,
                );
            }
            number += 16;
        });
        assert_eq!(out.len(), 16 * 7);
        // After two rounds every slot has a buffer, also the first, which needs none.
        assert!(round < 2 || bytes_allocated == 0, "{bytes_allocated} bytes");
    }
}

#[test]
fn announced_lengths_allocate_nothing_before_their_data_arrives() {
    let mut world = LocalPartition { scratch: Scratch::default(), is_remote: false };
    for claim in ["*1048576\r\n", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$16777216\r\n", "*1\r\n$16777216\r\nabc"] {
        let (mut connection, mut out) = (connection(), Vec::new());
        let bytes_allocated = allocated(|| {
            assert_eq!(connection.receive(claim.as_bytes(), &mut world, &mut out).used, 0);
        });
        assert!(bytes_allocated < 256, "{claim}: {bytes_allocated} bytes");
    }
}
