//! A cluster in memory: keyspaces whose partitions are local or remote.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use zerohop_wire::ids::{KeyspaceId, PartitionId, SnapshotId, Timestamp};
use zerohop_wire::{Failure, Permission};

use super::ModelRecords;
use crate::unit::UnitKind;
use crate::{
    Connection, ConnectionWorld, ExecutionOutcome, FetchedRecord, GatherStep, GatheredChange,
    GatheredRecords, Layout, MemberState, PartitionPlace, Records, RedisMember, Scratch, ServerInfo,
    SlotService, Slots, Ticket, Unit, UnitResult, WrongPassword, execute, execute_past,
};

/// The slots of the keyspace.
#[derive(Clone, Copy, Debug)]
struct ModelLayout {
    partitions: u32,
    slot_of: fn(&[u8]) -> u16,
    service: SlotService,
}

/// A unit with a later reply, as encoded bytes.
#[derive(Clone, Debug)]
struct PromisedUnit {
    partition_place: PartitionPlace,
    ticket: Ticket,
    unit: Vec<u8>,
}

/// The keyspaces that are not there.
#[derive(Debug, Default)]
pub struct AbsentKeyspaces {
    /// Whether none is known yet: the cluster starts for the first time.
    pub are_awaited: bool,
    /// Those that were dropped.
    pub dropped: BTreeSet<KeyspaceId>,
}

/// The keyspaces `default` (1) and `other` (2), each with the same number of partitions.
#[derive(Debug)]
pub struct ModelWorld {
    /// The current time.
    pub now_ms: u64,
    /// Remote partitions, which do not execute at once.
    pub remote: BTreeSet<u32>,
    /// Whether a client that knows the layout is redirected to these.
    pub moves: bool,
    /// The password of connections, if they need one.
    pub password: Option<Vec<u8>>,
    /// Whether units may have keys in several partitions.
    pub serves_cross_partition: bool,
    /// Whether that will be so soon: the node is starting.
    pub serves_cross_partition_soon: bool,
    /// The keyspaces that are not there.
    pub absent: AbsentKeyspaces,
    /// Whether the connection may only read.
    pub is_read_only: bool,
    /// Bytes of a connection that may wait.
    pub waiting_bytes_max: usize,
    /// Whether changes are refused.
    pub is_full: bool,
    /// Whether partitions are busy for a long time.
    pub is_busy: bool,
    /// How long `DEBUG SLEEP` has slept.
    pub slept_ms: u64,
    layout: ModelLayout,
    records: BTreeMap<PartitionPlace, ModelRecords>,
    promised: VecDeque<PromisedUnit>,
    /// The open snapshots: the records of a partition. A removed one has expired.
    pub snapshots: BTreeMap<SnapshotId, ModelRecords>,
    snapshots_opened: u128,
    /// Units that wait for a change or a time-out.
    waiting: Vec<PromisedUnit>,
    scratch: Scratch,
}

/// Slots of a Redis cluster.
const SLOTS: u32 = 16_384;

/// The timestamp of all snapshots.
const AT: Timestamp = Timestamp(77);

/// The time that a command of several parts has.
pub const TIME_OUT_MS: u64 = 15_000;

/// Stands for several partitions.
const SEVERAL: PartitionId = PartitionId(u32::MAX);

impl ModelWorld {
    /// So many partitions, at most 16384. `slot_of` returns the slot of a key; it is a parameter
    /// because the hash is in another crate.
    #[must_use]
    pub fn new(partitions: u32, slot_of: fn(&[u8]) -> u16) -> ModelWorld {
        ModelWorld {
            now_ms: 1_700_000_000_000,
            remote: BTreeSet::new(),
            moves: false,
            serves_cross_partition: false,
            serves_cross_partition_soon: false,
            password: None,
            absent: AbsentKeyspaces::default(),
            is_read_only: false,
            waiting_bytes_max: usize::MAX,
            is_full: false,
            is_busy: false,
            slept_ms: 0,
            layout: ModelLayout {
                partitions: partitions.clamp(1, SLOTS),
                slot_of,
                service: SlotService::default(),
            },
            records: BTreeMap::new(),
            promised: VecDeque::new(),
            snapshots: BTreeMap::new(),
            snapshots_opened: 0,
            waiting: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    /// From now on slots are served in this way.
    pub fn set_slot_service(&mut self, service: SlotService) {
        self.layout.service = service;
    }

    /// The records of a partition.
    pub fn records(&mut self, place: PartitionPlace) -> &mut ModelRecords {
        let records = self.records.entry(place).or_default();
        (records.now_ms, records.is_full) = (self.now_ms, self.is_full);
        records.partitions = self.layout.partitions;
        records
    }

    /// Splits each partition into two.
    pub fn split(&mut self) {
        self.layout.partitions = (self.layout.partitions * 2).min(SLOTS);
        let (before, partitions, slot_of) =
            (std::mem::take(&mut self.records), self.layout.partitions, self.layout.slot_of);
        for (PartitionPlace { keyspace, partition: PartitionId(parent) }, records) in before {
            for partition in [2 * parent, 2 * parent + 1] {
                let is_own = |key: &[u8]| u32::from(slot_of(key)) * partitions / SLOTS == partition;
                let place = PartitionPlace { keyspace, partition: PartitionId(partition) };
                self.records.insert(place, records.only(is_own));
            }
        }
    }

    /// Units with a later reply that can be executed.
    #[must_use]
    pub fn promised(&self) -> usize {
        self.promised.len()
    }

    /// Units that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Executes the first of the units with a later reply that are for the same partition as unit
    /// `at`, and delivers its reply; of units over several partitions, and pages of a command over all of them, unit `at` itself: these
    /// have no order. True if the connection wants to receive again.
    pub fn deliver(&mut self, at: usize, connection: &mut Connection, out: &mut Vec<u8>) -> bool {
        let is_page = |promised: &PromisedUnit| {
            Unit::decode(&promised.unit).is_ok_and(|unit| unit.kind == UnitKind::Page)
        };
        let first = match self.promised.get(at) {
            Some(PromisedUnit { partition_place: PartitionPlace { partition: SEVERAL, .. }, .. }) => Some(at),
            Some(promised) if is_page(promised) => Some(at),
            Some(PromisedUnit { partition_place: place, .. }) => {
                let is_first = |one: &PromisedUnit| one.partition_place == *place && !is_page(one);
                self.promised.iter().position(is_first)
            }
            None => None,
        };
        let Some(promised) = first.and_then(|first| self.promised.remove(first)) else { return false };
        self.deliver_unit(promised, connection, out)
    }

    /// Executes waiting units whose key has changed or whose time is over.
    pub fn run_waiting(&mut self, connection: &mut Connection, out: &mut Vec<u8>) -> bool {
        let mut again = false;
        for promised in std::mem::take(&mut self.waiting) {
            again |= self.deliver_unit(promised, connection, out);
        }
        again
    }

    fn deliver_unit(
        &mut self,
        promised: PromisedUnit,
        connection: &mut Connection,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut reply = Vec::new();
        let ticket = promised.ticket;
        self.run_promised(promised, &mut reply) && connection.complete(ticket, &reply, self, out)
    }

    /// Delivers everything, and passes the rest of the input to the connection again. Returns what
    /// is left.
    pub fn deliver_all(
        &mut self,
        connection: &mut Connection,
        mut rest: Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Vec<u8> {
        while self.promised() > 0 {
            self.deliver(0, connection, out);
            let used = connection.receive(&rest, self, out).used;
            rest.drain(..used);
        }
        rest
    }

    /// False if it waits.
    fn run_promised(&mut self, mut promised: PromisedUnit, reply: &mut Vec<u8>) -> bool {
        let bytes = promised.unit.clone();
        match Unit::decode(&bytes) {
            Ok(mut unit) => match self.execute(promised.partition_place, &unit, reply) {
                ExecutionOutcome::Wait { until_ms, .. } => {
                    unit.wait_until_ms = Some(until_ms);
                    promised.unit.clear();
                    unit.encode(&mut promised.unit);
                    self.waiting.push(promised);
                    false
                }
                _ => true,
            },
            Err(_) => unreachable!("a unit decodes to what was encoded"),
        }
    }

    /// Executes a unit over records of several partitions, in one step: there is no concurrency
    /// here.
    fn execute_over(
        &mut self,
        keyspace: KeyspaceId,
        unit: &Unit<'_>,
        reply: &mut Vec<u8>,
    ) -> ExecutionOutcome {
        let (mut gathered, mut scratch) = (GatheredRecords::default(), Scratch::default());
        loop {
            match gathered.execute(unit, self.now_ms, &mut scratch, reply) {
                GatherStep::NeedsRecords(wants) => {
                    for (key, looks) in wants {
                        let found = self.found(keyspace, &key, looks);
                        assert!(gathered.add_record(key, found).is_ok(), "models are small");
                    }
                }
                GatherStep::Done(changes) => {
                    let before = self.records.clone();
                    if let Err(failure) = changes.iter().try_for_each(|one| self.change(keyspace, one)) {
                        self.records = before;
                        reply.clear();
                        crate::failure_reply(&failure, reply);
                        return ExecutionOutcome::Aborted(failure);
                    }
                    return ExecutionOutcome::Done;
                }
                GatherStep::Failed => {
                    return ExecutionOutcome::Aborted(zerohop_wire::BadRequestReason::Unexpected.into());
                }
            }
        }
    }

    fn partition_place(&self, keyspace: KeyspaceId, key: &[u8]) -> PartitionPlace {
        PartitionPlace { keyspace, partition: self.partition_of(keyspace, key) }
    }

    fn found(&mut self, keyspace: KeyspaceId, key: &[u8], looks: bool) -> FetchedRecord {
        let place = self.partition_place(keyspace, key);
        let records = self.records(place);
        let info = records.inspect(key).unwrap_or(None);
        let contents = records.get(key).filter(|_| looks).map(|record| record.contents.clone());
        FetchedRecord { info, contents }
    }

    fn change(
        &mut self,
        keyspace: KeyspaceId,
        (key, change): &(Vec<u8>, GatheredChange),
    ) -> Result<(), zerohop_wire::Failure<'static>> {
        let place = self.partition_place(keyspace, key);
        let records = self.records(place);
        match change {
            GatheredChange::Put(bytes, deadline) => records.put(key, bytes, *deadline),
            GatheredChange::Extend(bytes) => records.extend(key, bytes),
            GatheredChange::Append(values) => {
                let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
                records.append(key, crate::Args::of(&values))
            }
            GatheredChange::Trim(keep) => records.trim(key, keep.clone()),
            GatheredChange::Remove => records.remove(key).map(drop),
            GatheredChange::Expire(at) => records.set_deadline(key, *at),
        }
    }

    fn execute_past(
        &mut self,
        id: SnapshotId,
        at: Timestamp,
        unit: &Unit<'_>,
        reply: &mut Vec<u8>,
    ) -> ExecutionOutcome {
        assert_eq!(at, AT);
        let (mut scratch, begin) = (Scratch::default(), reply.len());
        let done = match self.snapshots.get_mut(&id) {
            Some(records) => execute_past(unit, records, &mut scratch, reply),
            None => Err(Failure::SnapshotExpired),
        };
        match done {
            Ok(is_read) => {
                self.snapshots.retain(|other, _| *other != id || !is_read);
                ExecutionOutcome::Done
            }
            Err(failure) => {
                reply.truncate(begin);
                crate::failure_reply(&failure, reply);
                ExecutionOutcome::Aborted(failure)
            }
        }
    }

    fn execute(&mut self, place: PartitionPlace, unit: &Unit<'_>, reply: &mut Vec<u8>) -> ExecutionOutcome {
        if self.absent.are_awaited {
            let failure = Failure::Unavailable { retry_after_ms: 1 };
            crate::failure_reply(&failure, reply);
            return ExecutionOutcome::Aborted(failure);
        }
        if self.absent.dropped.contains(&place.keyspace) {
            let failure = Failure::UnknownKeyspace { keyspace: place.keyspace };
            crate::failure_reply(&failure, reply);
            return ExecutionOutcome::Aborted(failure);
        }
        if place.partition == SEVERAL {
            return self.execute_over(place.keyspace, unit, reply);
        }
        if self.is_busy {
            let failure = zerohop_wire::Failure::Unavailable { retry_after_ms: 1 };
            crate::failure_reply(&failure, reply);
            return ExecutionOutcome::Aborted(failure);
        }
        if let Some((id, at)) = unit.reads_past() {
            return self.execute_past(id, at, unit, reply);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let records = self.records(place);
        let before = records.snapshot();
        let length = reply.len();
        let outcome = execute(unit, records, &mut scratch, reply);
        match &outcome {
            ExecutionOutcome::Done => assert!(
                unit.may_write() || *records == before,
                "a unit that says it does not write has written"
            ),
            ExecutionOutcome::Wait { .. } => {
                assert!(
                    *records == before && reply.len() == length,
                    "a unit that waits leaves nothing behind"
                );
            }
            ExecutionOutcome::Paged(paged) => {
                self.snapshots_opened += 1;
                let id = SnapshotId(self.snapshots_opened);
                paged.opened(unit, id, AT, reply);
                self.snapshots.insert(id, before);
            }
            ExecutionOutcome::Refused | ExecutionOutcome::Aborted(_) => records.restore(before),
        }
        self.scratch = scratch;
        outcome
    }
}

impl ConnectionWorld for ModelWorld {
    fn run(
        &mut self,
        to: PartitionPlace,
        ticket: Ticket,
        unit: &Unit<'_>,
        reply: &mut Vec<u8>,
    ) -> UnitResult {
        let mut bytes = Vec::new();
        unit.encode(&mut bytes);
        let promised = PromisedUnit { partition_place: to, ticket, unit: bytes };
        // It must also queue after other units of the same partition.
        if self.remote.contains(&to.partition.0)
            || self.promised.iter().any(|other| other.partition_place == to)
        {
            self.promised.push_back(promised);
            return UnitResult::Later;
        }
        match self.execute(to, unit, reply) {
            ExecutionOutcome::Wait { .. } => {
                self.run_promised(promised, reply);
                UnitResult::Later
            }
            _ => UnitResult::Done,
        }
    }

    fn serves_cross_partition(&self) -> bool {
        self.serves_cross_partition
    }

    fn serves_cross_partition_soon(&self) -> bool {
        self.serves_cross_partition_soon
    }

    fn has_known_keyspaces(&self) -> bool {
        !self.absent.are_awaited
    }

    fn run_over(
        &mut self,
        keyspace: KeyspaceId,
        ticket: Ticket,
        unit: &Unit<'_>,
        reply: &mut Vec<u8>,
    ) -> UnitResult {
        let is_part = |other: &PromisedUnit| {
            other.partition_place.partition == SEVERAL && other.ticket.number == ticket.number
        };
        assert!(self.promised.iter().all(is_part), "no other command of the connection is under way");
        if self.remote.is_empty() {
            // A failure is a reply too.
            let _ = self.execute_over(keyspace, unit, reply);
            return UnitResult::Done;
        }
        let mut bytes = Vec::new();
        unit.encode(&mut bytes);
        let place = PartitionPlace { keyspace, partition: SEVERAL };
        self.promised.push_back(PromisedUnit { partition_place: place, ticket, unit: bytes });
        UnitResult::Later
    }

    fn keyspace(&self, name: &[u8]) -> Option<KeyspaceId> {
        let found = match name {
            b"default" => KeyspaceId(1),
            b"other" => KeyspaceId(2),
            _ => return None,
        };
        (!self.absent.are_awaited && !self.absent.dropped.contains(&found)).then_some(found)
    }

    fn keyspace_name(&self, keyspace: KeyspaceId) -> String {
        match keyspace {
            _ if self.absent.dropped.contains(&keyspace) => "",
            KeyspaceId(1) => "default",
            _ => "other",
        }
        .to_owned()
    }

    fn partitions(&self, keyspace: KeyspaceId) -> u32 {
        if self.absent.are_awaited || self.absent.dropped.contains(&keyspace) {
            0
        } else {
            self.layout.partitions
        }
    }

    fn partition_of(&self, keyspace: KeyspaceId, key: &[u8]) -> PartitionId {
        if self.absent.are_awaited || self.absent.dropped.contains(&keyspace) {
            return PartitionId(0);
        }
        PartitionId(u32::from((self.layout.slot_of)(key)) * self.layout.partitions / SLOTS)
    }

    fn slot_of(&self, key: &[u8]) -> u16 {
        (self.layout.slot_of)(key)
    }

    fn partition_of_slot(&self, keyspace: KeyspaceId, slot: u16) -> Option<PartitionId> {
        (!self.absent.dropped.contains(&keyspace))
            .then_some(PartitionId(u32::from(slot) * self.layout.partitions / SLOTS))
    }

    fn moved(&self, place: PartitionPlace) -> Option<(String, u16)> {
        (self.moves && self.remote.contains(&place.partition.0)).then(|| ("127.0.0.1".to_owned(), 7002))
    }

    fn layout(&self, _keyspace: KeyspaceId) -> Layout {
        let member = |digit: &str, port, is_self, state| RedisMember {
            id: digit.repeat(40),
            host: "127.0.0.1".to_owned(),
            port,
            is_self,
            state,
        };
        let slots = |partition: u32| {
            let is_away = usize::from(self.remote.contains(&partition));
            Slots {
                first: (partition * SLOTS).div_ceil(self.layout.partitions) as u16,
                last: ((partition + 1) * SLOTS).div_ceil(self.layout.partitions) as u16 - 1,
                primary: is_away,
                replicas: vec![1 - is_away, 2],
            }
        };
        let members = vec![
            member("a", 7001, true, MemberState::Up),
            member("b", 7002, false, MemberState::Up),
            member("c", 7003, false, MemberState::Down),
        ];
        let slots = (0..self.layout.partitions).map(slots).collect();
        Layout { members, slots, service: self.layout.service }
    }

    fn map_epoch(&self) -> u64 {
        1
    }

    fn server(&self) -> ServerInfo {
        ServerInfo { version: "0.1.0".to_owned(), port: 7001, ..ServerInfo::default() }
    }

    fn own_keys(&self, _: KeyspaceId) -> u64 {
        self.records.values().map(|records| records.keys().count() as u64).sum()
    }

    fn now_us(&self) -> u64 {
        self.now_ms * 1000 + 7
    }

    fn time_out_ms(&self) -> u64 {
        TIME_OUT_MS
    }

    fn other_clients(&self, asking: u64, each: &mut dyn FnMut(&str)) {
        each(&format!("id={} addr=127.0.0.1:5 name=other", asking + 1));
    }

    fn authenticate(&mut self, user: &[u8], password: &[u8]) -> Result<(), WrongPassword> {
        match user == b"default" && self.password.as_ref().is_none_or(|right| right == password) {
            true => Ok(()),
            false => Err(WrongPassword { why: (password == b"old").then_some("it has expired") }),
        }
    }

    fn permits(&self, keyspace: KeyspaceId, may_write: bool) -> Result<(), Failure<'static>> {
        match self.is_read_only && may_write {
            true => Err(Failure::Forbidden { permission: Permission::Write, keyspace }),
            false => Ok(()),
        }
    }

    fn may_buffer(&mut self, bytes: usize) -> bool {
        bytes <= self.waiting_bytes_max
    }

    fn needs_authentication(&self) -> bool {
        self.password.is_some()
    }

    fn allows_debug(&self) -> bool {
        true
    }

    fn sleep(&mut self, ms: u64) {
        self.slept_ms += ms;
    }
}
