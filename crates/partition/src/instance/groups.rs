//! The partitions that this instance holds together with others, the leases between the instances, and what is sent.
//!
//! Partitions of groups of one are in [`super::table`] and know nothing of this. One whose group grows comes over here.

use std::collections::BTreeMap;

use zerohop_engine::Engine;
use zerohop_engine::disk::Disk;
use zerohop_placement::{ClusterMap, Group, KeyspaceConfig};
use zerohop_wire::ids::{Incarnation, KeyspaceId, MapEpoch, PartitionEpoch, PartitionId, Timestamp};
use zerohop_wire::messages::{Call, Member, Peer};
use zerohop_wire::{Envelope, Failure, Message};

use super::clock::Time;
use super::open::{engine_id, options_of};
use super::relay::Relay;
use super::{Effects, Identity, Instance, OpenError, Place, relay};
use crate::event::{Now, Request, Token};
use crate::partition::Partition;
use crate::replica::{Change, Context, Leases, Replica, Told, View};
use crate::{Program, Ran};

/// How often groups are looked at though nothing has come: heartbeats, leases and time-outs are some tens of
/// milliseconds.
const TICK_MS: u64 = 5;

type Key = (KeyspaceId, PartitionId);

/// See the module.
#[derive(Debug)]
pub(super) struct Groups {
    by: BTreeMap<Key, Replica>,
    leases: Leases,
    wants_flush: bool,
    ticked_ms: u64,
    /// The ceiling that the owner was asked to sync.
    asked_ceiling: Timestamp,
}

impl Groups {
    pub(super) fn new(identity: Identity, now: Time, ceiling: Timestamp) -> Groups {
        let me = member(identity);
        Groups {
            by: BTreeMap::new(),
            leases: Leases::new(me, micros(now), ceiling),
            wants_flush: false,
            ticked_ms: 0,
            asked_ceiling: ceiling,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by.is_empty()
    }

    pub(super) fn holds(&self, keyspace: KeyspaceId, partition: PartitionId) -> bool {
        self.by.contains_key(&(keyspace, partition))
    }

    pub(super) fn of(&self, keyspace: KeyspaceId) -> Vec<PartitionId> {
        self.by.keys().filter(|(of, _)| *of == keyspace).map(|(_, partition)| *partition).collect()
    }

    pub(super) fn keyspaces(&self) -> impl Iterator<Item = KeyspaceId> {
        self.by.keys().map(|(keyspace, _)| *keyspace)
    }

    pub(super) fn len(&self) -> usize {
        self.by.len()
    }

    pub(super) fn remove(&mut self, keyspace: KeyspaceId, partition: PartitionId) -> bool {
        self.by.remove(&(keyspace, partition)).is_some()
    }

    pub(super) fn insert(&mut self, keyspace: KeyspaceId, partition: PartitionId, replica: Replica) {
        self.by.insert((keyspace, partition), replica);
    }

    /// All partitions follow this map from now on: what was granted under older ones is waited out.
    pub(super) fn set_map(&mut self, epoch: MapEpoch) {
        self.leases.set_map(epoch);
    }

    pub(super) fn next_wake_ms(&self) -> u64 {
        if self.by.is_empty() { u64::MAX } else { self.ticked_ms + TICK_MS }
    }

    /// Hands something to one partition.
    pub(super) fn step<D: Disk>(
        &mut self,
        key: Key,
        (engine, now, time): (&mut Engine<D>, Now, Time),
        told: Told<'_>,
        relay: &mut Relay<'_>,
    ) {
        let Groups { by, leases, wants_flush, .. } = self;
        let Some(replica) = by.get_mut(&key) else { return };
        let epoch = match &told {
            Told::Group(view) => view.epoch,
            _ => replica.view().epoch,
        };
        relay.place = Place { keyspace: key.0, partition: key.1, epoch };
        relay.wants_flush = false;
        let mut context = Context { engine, now, now_us: micros(time), leases };
        if let Err(error) = replica.step(&mut context, told, relay) {
            relay.counters.trouble(&error);
        }
        *wants_flush |= relay.wants_flush;
    }

    fn step_all<D: Disk>(
        &mut self,
        (engine, now, time): (&mut Engine<D>, Now, Time),
        told: &Told<'_>,
        relay: &mut Relay<'_>,
    ) {
        for key in self.by.keys().copied().collect::<Vec<_>>() {
            self.step(key, (engine, now, time), told.clone(), relay);
        }
    }
}

/// A member of a group as a map names it: an instance that it does not know is of no incarnation.
pub(super) fn view_of(map: &ClusterMap, config: &KeyspaceConfig, group: Group<'_>) -> View {
    View::of(group, map.epoch(), config.min_in_sync, |instance| {
        map.instance(instance).map_or(Incarnation(0), |found| found.incarnation)
    })
}

/// Whether others hold the partition too.
pub(super) fn is_shared(group: Group<'_>) -> bool {
    group.members().count() > 1
}

fn member(identity: Identity) -> Member {
    Member { instance: identity.instance, incarnation: identity.incarnation }
}

/// The clock that is never set, as leases count it.
fn micros(time: Time) -> u64 {
    time.elapsed_ms.saturating_mul(1_000)
}

impl<D: Disk> Instance<D> {
    /// What the owner has found on its disk as the ceiling that was synced last: to be told before anything else.
    pub fn begin_above(&mut self, now: Time, ceiling: Timestamp) {
        self.groups =
            Groups { by: std::mem::take(&mut self.groups.by), ..Groups::new(self.identity, now, ceiling) };
        self.groups.set_map(self.history.map().epoch());
        self.clock.begin_above(ceiling);
    }

    /// The ceiling that [`Effects::sync_ceiling`] asked for is on disk.
    pub fn ceiling_synced(&mut self, ceiling: Timestamp) {
        self.groups.leases.synced(ceiling);
    }

    /// The control group wants a follower of a partition in sync, for a move.
    pub fn admission_wanted(
        &mut self,
        now: Time,
        (keyspace, partition): (KeyspaceId, PartitionId),
        follower: Member,
        effects: &mut dyn Effects,
    ) {
        self.clock.advance(now);
        self.tell((keyspace, partition), Told::Asked(follower), effects);
    }

    /// What is told to the control group about the logs that are here, after a start.
    pub fn log_ends(&self) -> impl Iterator<Item = (KeyspaceId, PartitionId, crate::replica::LogEnd)> {
        self.groups
            .by
            .iter()
            .map(|((keyspace, partition), replica)| (*keyspace, *partition, replica.log_end()))
    }

    /// Something that another instance says. `false`: it is not meant for this process, or is about nothing here.
    pub(super) fn peer(&mut self, envelope: &Envelope, peer: &Peer<'_>, effects: &mut dyn Effects) -> bool {
        let me = member(self.identity);
        if peer.to != me || self.groups.is_empty() {
            return false;
        }
        if let Call::LeaseAsk { .. } | Call::LeaseGrant { .. } = peer.call {
            let now_us = self.clock.elapsed_ms().saturating_mul(1_000);
            if let Some(call) = self.groups.leases.take(now_us, peer.from, &peer.call) {
                send_peer(effects, &Envelope::default(), me, peer.from, &call);
            }
            return true;
        }
        let key = (envelope.keyspace, envelope.partition);
        let told = Told::Peer { from: peer.from, epoch: envelope.partition_epoch, call: &peer.call };
        self.tell(key, told, effects);
        true
    }

    /// Takes up a request for a partition that is held together with others.
    pub(super) fn request_shared(&mut self, request: Request<'_>, effects: &mut dyn Effects) {
        let key = (request.envelope.keyspace, request.envelope.partition);
        self.tell(key, Told::Request(request), effects);
    }

    /// Runs a unit over the records of a partition that is held together with others.
    pub(super) fn run_shared<P: Program>(
        &mut self,
        key: Key,
        to: Token,
        (program, reply): (&mut P, &mut Vec<u8>),
        effects: &mut dyn Effects,
    ) -> Result<Ran, Failure<'static>> {
        let Instance { identity, engine, groups, history, connections, counters, clock, .. } = self;
        let now_us = clock.elapsed_ms().saturating_mul(1_000);
        let mut relay = relay(history, connections, counters, effects);
        relay.me = member(*identity);
        let Some(replica) = groups.by.get_mut(&key) else {
            return Err(Failure::UnknownKeyspace { keyspace: key.0 });
        };
        relay.place = Place { keyspace: key.0, partition: key.1, epoch: replica.view().epoch };
        let mut context = Context { engine, now: clock.now(), now_us, leases: &groups.leases };
        let result = replica.run(&mut context, to, (program, reply), &mut relay);
        groups.wants_flush |= relay.wants_flush;
        result
    }

    pub(super) fn tell(&mut self, key: Key, told: Told<'_>, effects: &mut dyn Effects) {
        let Instance { identity, engine, groups, history, connections, counters, clock, .. } = self;
        let time = Time { unix_ms: clock.now().ms, elapsed_ms: clock.elapsed_ms() };
        let mut relay = relay(history, connections, counters, effects);
        relay.me = member(*identity);
        groups.step(key, (engine, clock.now(), time), told, &mut relay);
    }

    fn tell_all(&mut self, told: &Told<'_>, effects: &mut dyn Effects) {
        let Instance { identity, engine, groups, history, connections, counters, clock, .. } = self;
        let time = Time { unix_ms: clock.now().ms, elapsed_ms: clock.elapsed_ms() };
        let mut relay = relay(history, connections, counters, effects);
        relay.me = member(*identity);
        groups.step_all((engine, clock.now(), time), told, &mut relay);
    }

    pub(super) fn disconnected_shared(&mut self, connection: u64) {
        if !self.groups.is_empty() {
            self.tell_all(&Told::Disconnected { connection }, &mut super::Nobody);
        }
    }

    /// The end of a batch, for groups: one flush, then what is to be sent; leases and ceiling every few milliseconds.
    pub(super) fn end_of_batch_shared(&mut self, effects: &mut dyn Effects) {
        if self.groups.is_empty() {
            return;
        }
        if std::mem::take(&mut self.groups.wants_flush) {
            self.counters.flushes += 1;
            match self.engine.flush() {
                Ok(()) => self.tell_all(&Told::Flushed, effects),
                Err(zerohop_engine::EngineError::DiskFull { .. }) => self.groups.wants_flush = true,
                Err(error) => {
                    self.counters.trouble(&error);
                    self.tell_all(&Told::FlushFailed, effects);
                }
            }
        }
        let elapsed_ms = self.clock.elapsed_ms();
        let Instance { identity, groups, clock, .. } = self;
        if elapsed_ms >= groups.ticked_ms + TICK_MS {
            groups.ticked_ms = elapsed_ms;
            let newest = groups.by.values().map(Replica::newest).max().unwrap_or_default();
            groups.leases.want_ceiling(clock.now().ms, newest);
            if let Some(ceiling) = groups.leases.to_sync().filter(|wanted| *wanted > groups.asked_ceiling) {
                groups.asked_ceiling = ceiling;
                effects.sync_ceiling(ceiling);
            }
            let mut wanted: Vec<Member> = groups.by.values().flat_map(Replica::lease_wanted_of).collect();
            wanted.sort_unstable();
            wanted.dedup();
            for (to, call) in groups.leases.ask(elapsed_ms.saturating_mul(1_000), wanted) {
                send_peer(effects, &Envelope::default(), member(*identity), to, &call);
            }
        }
        // What was appended in this batch is sent with its end, gathered by the owner for each peer.
        self.tell_all(&Told::Tick, effects);
    }

    /// Opens a partition that the map gives to this instance and to others.
    pub(super) fn open_shared(
        &mut self,
        keyspace: KeyspaceId,
        id: PartitionId,
        config: &KeyspaceConfig,
        group: Group<'_>,
    ) -> Result<(), OpenError> {
        let me = member(self.identity);
        let options = options_of(config, id, group.epoch);
        let replica = Replica::open(&mut self.engine, me, engine_id(keyspace, id), options)
            .map_err(|error| OpenError::of_partition(keyspace, id, error))?;
        self.groups.insert(keyspace, id, replica);
        Ok(())
    }

    /// A partition of a group of one gets company.
    pub(super) fn share(
        &mut self,
        (keyspace, id): Key,
        (partition, epoch): (Partition, PartitionEpoch),
        config: &KeyspaceConfig,
    ) {
        let me = member(self.identity);
        let options = options_of(config, id, epoch);
        let alone = View { epoch, map_epoch: self.groups.leases.map_epoch(), primary: me, ..View::default() };
        let replica = Replica::adopt(partition, alone, engine_id(keyspace, id), options);
        self.groups.insert(keyspace, id, replica);
    }
}

fn send_peer(effects: &mut dyn Effects, envelope: &Envelope, from: Member, to: Member, call: &Call<'_>) {
    effects.send(to, envelope, &Message::Peer(Peer { from, to, call: call.clone() }));
}

impl crate::replica::Effects for Relay<'_> {
    fn send(&mut self, to: Member, epoch: PartitionEpoch, call: &Call<'_>) {
        let Place { keyspace, partition, .. } = self.place;
        let envelope = Envelope { keyspace, partition, partition_epoch: epoch, ..Envelope::default() };
        send_peer(self.out, &envelope, self.me, to, call);
    }

    fn ask(&mut self, epoch: PartitionEpoch, change: Change) {
        self.out.ask_control(Place { epoch, ..self.place }, change);
    }

    fn fetch_map(&mut self, _epoch: PartitionEpoch) {
        self.out.fetch_map();
    }
}
