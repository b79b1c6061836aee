//! What a connection of a Redis client sees of the node.

use zerohop_base::connection::ConnectionId;
use zerohop_placement::hash::key_slot;
use zerohop_resp::{
    ConnectionWorld, Layout, PartitionPlace, ServerInfo, Ticket, Unit, UnitResult, WrongPassword,
    failure_reply,
};
use zerohop_wire::auth::Access;
use zerohop_wire::ids::{KeyspaceId, PartitionId};
use zerohop_wire::{Failure, Permission};

use super::client_queues::{PartitionPoints, QueueId, RoutedUnit};
use super::cluster_slots::{has_slots, layout, partition_of_slot, split};
use super::limits::BUSY_RETRY_MS;
use super::planted::{Bug, is_planted};
use super::redis_client::RedisClient;
use super::scheduler::{UnitOrigin, UnitScheduler, encoded, may_come_again};
use super::{CrossPartition, RelayContext};

/// The instance while one of its clients is being served.
pub(super) struct ClientWorld<'h, C> {
    pub(super) at: &'h mut C,
    pub(super) scheduler: &'h mut UnitScheduler,
    /// All clients except the one being served.
    pub(super) others: &'h [Option<RedisClient>],
    pub(super) connection: ConnectionId,
}

/// Whether the client has the permissions for a unit.
fn may_run(
    at: &impl RelayContext,
    connection: ConnectionId,
    keyspace: KeyspaceId,
    unit: &Unit<'_>,
) -> Result<(), Failure<'static>> {
    match at.access(connection) {
        Access::All => Ok(()),
        _ => needed(unit.has_changes()).iter().try_for_each(|one| at.permits(connection, keyspace, *one)),
    }
}

/// The permissions of a command: many writing commands return the earlier value.
fn needed(may_write: bool) -> &'static [Permission] {
    if may_write { &[Permission::Write, Permission::Read] } else { &[Permission::Read] }
}

impl<C: RelayContext> ConnectionWorld for ClientWorld<'_, C> {
    #[inline]
    fn run(
        &mut self,
        to: PartitionPlace,
        ticket: Ticket,
        unit: &Unit<'_>,
        reply: &mut Vec<u8>,
    ) -> UnitResult {
        self.scheduler.commands += 1;
        let ClientWorld { at, scheduler, connection, .. } = self;
        let at = &mut **at;
        let requester = UnitOrigin::Client { connection: *connection, ticket };
        let (map, me) = (at.instance().map(), at.instance().identity().instance);
        let Some(found) = map.keyspace(to.keyspace) else {
            let failure = match at.instance().has_known_keyspaces() {
                true => Failure::UnknownKeyspace { keyspace: to.keyspace },
                false => Failure::Unavailable { retry_after_ms: BUSY_RETRY_MS },
            };
            failure_reply(&failure, reply);
            return UnitResult::Done;
        };
        let of_token;
        let unit = match at.access(*connection) {
            Access::All => unit,
            Access::Token(token) => {
                if let Err(failure) = may_run(at, *connection, to.keyspace, unit) {
                    failure_reply(&failure, reply);
                    return UnitResult::Done;
                }
                of_token = unit.for_token(token);
                &of_token
            }
        };
        let busy = Failure::Busy { retry_after_ms: BUSY_RETRY_MS };
        let queue_id = QueueId::of(*connection, to, PartitionPoints::of(found, to.partition));
        let queue_id = scheduler.client_queues.queue_of(queue_id);
        // A partition that the map lacks comes from a split that this map does not have yet.
        // Earlier units of this client for this partition go first.
        let is_here = found.group(to.partition).is_some_and(|group| group.primary == me)
            && (scheduler.client_queues.is_free(queue_id) || is_planted(Bug::QueueOvertaken));
        let refused = if is_here && scheduler.is_full() {
            busy
        } else if is_here && (unit.is_step() || ticket.part > 0) {
            if scheduler.put_off(to, requester, unit) {
                return UnitResult::Later;
            }
            busy
        } else if is_here {
            match scheduler.run(at, to, requester, unit, reply) {
                Ok(true) => return UnitResult::Done,
                Ok(false) => return UnitResult::Later,
                Err(failure) => failure,
            }
        } else {
            Failure::Unavailable { retry_after_ms: BUSY_RETRY_MS }
        };
        if may_come_again(&refused) {
            let routed =
                RoutedUnit { partition: to.partition, unit: encoded(unit), may_write: unit.may_write() };
            let now_ms = at.now().elapsed_ms;
            let is_queued = if is_here {
                scheduler.client_queues.push_first(queue_id, ticket, routed, now_ms)
            } else {
                scheduler.client_queues.push(queue_id, ticket, routed, now_ms)
            };
            if is_queued {
                return UnitResult::Later;
            }
        }
        failure_reply(&refused, reply);
        UnitResult::Done
    }

    fn serves_cross_partition(&self) -> bool {
        self.at.cross_partition() == CrossPartition::Yes
    }

    fn serves_cross_partition_soon(&self) -> bool {
        self.at.cross_partition() == CrossPartition::Soon
    }

    fn elapsed_ms(&self) -> u64 {
        self.at.now().elapsed_ms
    }

    fn time_out_ms(&self) -> u64 {
        self.scheduler.time_out_ms()
    }

    fn has_known_keyspaces(&self) -> bool {
        self.at.instance().has_known_keyspaces()
    }

    fn run_over(
        &mut self,
        keyspace: KeyspaceId,
        ticket: Ticket,
        unit: &Unit<'_>,
        reply: &mut Vec<u8>,
    ) -> UnitResult {
        self.scheduler.commands += 1;
        if let Err(failure) = may_run(self.at, self.connection, keyspace, unit) {
            failure_reply(&failure, reply);
            return UnitResult::Done;
        }
        let name = self.keyspace_name(keyspace);
        let is_accepted = self.at.run_across(&name, encoded(unit), (self.connection, ticket));
        if is_accepted {
            self.scheduler.cross_partition_count += 1;
            return UnitResult::Later;
        }
        failure_reply(&Failure::Busy { retry_after_ms: BUSY_RETRY_MS }, reply);
        UnitResult::Done
    }

    fn keyspace(&self, name: &[u8]) -> Option<KeyspaceId> {
        let name = std::str::from_utf8(name).ok()?;
        self.at.instance().map().keyspace_named(name).map(|(id, _)| id)
    }

    fn keyspace_name(&self, keyspace: KeyspaceId) -> String {
        let found = self.at.instance().map().keyspace(keyspace);
        found.map_or(String::new(), |keyspace| keyspace.config().name.as_str().to_owned())
    }

    fn partitions(&self, keyspace: KeyspaceId) -> u32 {
        self.at.instance().map().keyspace(keyspace).map_or(0, |keyspace| keyspace.config().partitions.get())
    }

    fn partition_at(&self, keyspace: KeyspaceId, position: u32) -> PartitionId {
        let found = self.at.instance().map().keyspace(keyspace);
        let known = found.filter(|found| position < found.config().partitions.get());
        known.map_or(PartitionId(position), |found| found.division().at(position))
    }

    #[inline]
    fn partition_of(&self, keyspace: KeyspaceId, key: &[u8]) -> PartitionId {
        self.at.instance().map().keyspace(keyspace).map_or(PartitionId(0), |keyspace| keyspace.partition(key))
    }

    fn slot_of(&self, key: &[u8]) -> u16 {
        key_slot(key)
    }

    fn partition_of_slot(&self, keyspace: KeyspaceId, slot: u16) -> Option<PartitionId> {
        let found = self.at.instance().map().keyspace(keyspace).filter(|keyspace| has_slots(keyspace))?;
        Some(partition_of_slot(slot, found.config().partitions.get()))
    }

    fn moved(&self, place: PartitionPlace) -> Option<(String, u16)> {
        let (map, me) = (self.at.instance().map(), self.at.instance().identity().instance);
        let keyspace = map.keyspace(place.keyspace).filter(|keyspace| has_slots(keyspace))?;
        let primary = keyspace.group(place.partition)?.primary;
        if primary == me { None } else { map.instance(primary).map(|instance| split(instance.addr)) }
    }

    fn layout(&self, keyspace: KeyspaceId) -> Layout {
        let (map, identity) = (self.at.instance().map(), self.at.instance().identity());
        layout((map, self.at.reachability()), map.keyspace(keyspace), identity.cluster, identity.instance)
    }

    fn map_epoch(&self) -> u64 {
        self.at.instance().map().epoch().0
    }

    fn server(&self) -> ServerInfo {
        let identity = self.at.instance().identity();
        let address = self.at.instance().map().instance(identity.instance).map_or("", |own| own.addr);
        ServerInfo {
            run_id: format!("{:016x}{:024x}", identity.incarnation.0, identity.instance.0),
            port: split(address).1,
            uptime_s: self.at.now().elapsed_ms / 1000,
            connected_clients: self.scheduler.clients,
            blocked_clients: self.scheduler.blocked_clients(),
            total_commands: self.scheduler.commands,
            ..self.at.process()
        }
    }

    fn own_keys(&self, keyspace: KeyspaceId) -> u64 {
        self.at.instance().primary_records(keyspace)
    }

    fn now_us(&self) -> u64 {
        self.at.now().unix_ms * 1000
    }

    fn other_clients(&self, _asking: u64, each: &mut dyn FnMut(&str)) {
        let now_us = self.now_us();
        let access = self.at.access(self.connection);
        let sees_all = self.at.permits(self.connection, KeyspaceId::NONE, Permission::Admin).is_ok();
        for client in self.others.iter().flatten() {
            // Addresses, names and last commands of other clients are for administrators.
            if !sees_all && self.at.access(client.id) != access {
                continue;
            }
            let kept = client.connection.buffered_bytes() + self.at.unsent_bytes(client.id);
            each(&client.connection.describe(now_us, kept));
        }
    }

    fn authenticate(&mut self, user: &[u8], password: &[u8]) -> Result<(), WrongPassword> {
        let Some(access @ Access::Token(id)) = self.at.token_access(password) else {
            return Err(WrongPassword { why: None });
        };
        let found = self.at.instance().map().token(id);
        let token = found.map_err(|fault| WrongPassword { why: Some(fault.text()) })?;
        if user != b"default" && user != token.name.as_str().as_bytes() {
            return Err(WrongPassword { why: None });
        }
        self.at.set_authenticated(self.connection, access);
        Ok(())
    }

    fn permits(&self, keyspace: KeyspaceId, may_write: bool) -> Result<(), Failure<'static>> {
        needed(may_write).iter().try_for_each(|one| self.at.permits(self.connection, keyspace, *one))
    }

    fn may_buffer(&mut self, bytes: usize) -> bool {
        self.at.may_buffer(self.connection, bytes)
    }

    fn needs_authentication(&self) -> bool {
        self.at.requires_proofs()
    }
}
