//! Requests that arrive in frames.

use std::borrow::Cow;

use zerohop_engine::disk::Disk;
use zerohop_placement::Keyspace;
use zerohop_wire::ids::{KeyspaceId, PartitionId, SessionId, Timestamp};
use zerohop_wire::messages::{ClusterId, Hello, HelloAck, Pong, SessionOpened};
use zerohop_wire::{Envelope, Failure, Kind, Message, What};

use super::clock::ClockReading;
use super::effects_adapter::Relay;
use super::table::PartitionLookup;
use super::{AnswerOrigin, Instance, InstanceEffect, InstanceEffects, relay};
use crate::event::{RecordRequest, StepContext, Token};
use crate::limits::{SESSION_IDLE_MS, UNAVAILABLE_RETRY_MS};
use crate::map_view::MapView;
use crate::program::{Program, ProgramResult};

impl<D: Disk> Instance<D> {
    /// Answers a client's greeting. The owner fills in version, features and the proof.
    ///
    /// # Errors
    /// The client means another cluster.
    pub fn hello(
        &mut self,
        connection: u64,
        hello: &Hello<'_>,
        now: ClockReading,
    ) -> Result<HelloAck, Failure<'static>> {
        self.clock.advance(now);
        let identity = self.identity;
        if hello.cluster != ClusterId::default() && hello.cluster != identity.cluster {
            return Err(Failure::OtherCluster);
        }
        self.connections.has(connection, hello.map_epoch);
        Ok(HelloAck {
            instance: identity.instance,
            cluster: identity.cluster,
            incarnation: identity.incarnation,
            map_epoch: self.map().epoch(),
            now: Timestamp::from_millis(self.clock.now().ms),
            ..HelloAck::default()
        })
    }

    /// Handles a request. An answer that needs durability waits for [`Instance::end_of_batch`].
    #[inline]
    pub fn request(
        &mut self,
        now: ClockReading,
        to: Token,
        envelope: &Envelope,
        message: &Message<'_>,
        effects: &mut dyn InstanceEffects,
    ) {
        self.clock.advance(now);
        let envelope = &self.timely(envelope);
        let kind = message.kind();
        self.counters.asked(kind);
        let Instance {
            engine, table, history, newest_keyspace, connections, counters, transit, clock, ..
        } = self;
        let Envelope { keyspace, partition, partition_epoch, .. } = *envelope;
        let at = StepContext { now: clock.now(), map: MapView::of(history.map()) };
        let mut relay = relay(history, connections, counters, transit, effects);
        relay.place = AnswerOrigin { keyspace, partition, ..AnswerOrigin::default() };
        if let Message::Peer(peer) = message {
            self.peer(envelope, peer, effects);
            return;
        }
        if !kind.is_for_partition() {
            return self.about_cluster(to, message, effects, relay_place(envelope));
        }
        // A transaction that started before the drop still gets its outcome. A new one is refused as misplaced.
        if self.closing.has(keyspace) && kind != Kind::Transact {
            return relay.fail(to, Failure::UnknownKeyspace { keyspace });
        }
        match table.find(keyspace, partition) {
            // The client has learned of a change that has not arrived here yet.
            PartitionLookup::Here(_, epoch) if partition_epoch > epoch => unavailable(&mut relay, to),
            PartitionLookup::Here(slot, _) => {
                let request = RecordRequest { token: to, envelope: *envelope, message };
                table.request(slot, (engine, at), request, &mut relay);
            }
            _ if self.groups.holds(keyspace, partition) => {
                let request = RecordRequest { token: to, envelope: *envelope, message };
                self.request_shared(request, effects);
            }
            PartitionLookup::NotHere | PartitionLookup::NoKeyspace => {
                match relay.history.map().keyspace(keyspace) {
                    Some(found) if self.splits.awaits(keyspace, partition) && is_of_now(found, envelope) => {
                        unavailable(&mut relay, to);
                    }
                    Some(found) if partition.0 < found.config().partitions.get() => relay.wrong_owner(to),
                    Some(_) => relay.fail(to, What::NoSuchPartition.into()),
                    // The client may know a newer map than this instance.
                    None if partition_epoch.0 != 0 && keyspace > *newest_keyspace => {
                        unavailable(&mut relay, to)
                    }
                    None => relay.fail(to, Failure::UnknownKeyspace { keyspace }),
                }
            }
        }
    }

    /// Runs a program over the records of a partition as one atomic batch, whatever the partition's epoch, for protocols whose
    /// clients know no epochs. See [`crate::Partition::run`]. An answer that needs durability waits for
    /// [`Instance::end_of_batch`].
    ///
    /// # Errors
    /// As there; `WrongOwner`, without the map changes, if the partition is not here.
    #[inline]
    pub fn run<P: Program>(
        &mut self,
        now: ClockReading,
        to: Token,
        (keyspace, partition): (KeyspaceId, PartitionId),
        (program, reply): (&mut P, &mut Vec<u8>),
        effects: &mut dyn InstanceEffects,
    ) -> Result<ProgramResult, Failure<'static>> {
        self.clock.advance(now);
        self.counters.units += 1;
        let Instance { engine, table, history, connections, counters, transit, clock, .. } = self;
        let result = match table.find(keyspace, partition) {
            _ if self.closing.has(keyspace) => Err(Failure::UnknownKeyspace { keyspace }),
            PartitionLookup::Here(slot, _) => {
                let at = StepContext { now: clock.now(), map: MapView::of(history.map()) };
                let mut relay = relay(history, connections, counters, transit, effects);
                table.run(slot, (engine, at), to, (program, reply), &mut relay)
            }
            _ if self.groups.holds(keyspace, partition) => {
                self.run_shared((keyspace, partition), to, (program, reply), effects)
            }
            PartitionLookup::NotHere | PartitionLookup::NoKeyspace => {
                match history.map().keyspace(keyspace) {
                    Some(_) if self.splits.awaits(keyspace, partition) => {
                        Err(Failure::Unavailable { retry_after_ms: UNAVAILABLE_RETRY_MS })
                    }
                    Some(_) => {
                        Err(Failure::WrongOwner { epoch: history.map().epoch(), delta: Cow::Borrowed(&[]) })
                    }
                    None => Err(Failure::UnknownKeyspace { keyspace }),
                }
            }
        };
        if let Err(failure) = &result {
            self.counters.failed(failure.code());
        }
        result
    }

    fn about_cluster(
        &mut self,
        to: Token,
        message: &Message<'_>,
        effects: &mut dyn InstanceEffects,
        place: AnswerOrigin,
    ) {
        let map_epoch = self.map().epoch();
        let now = Timestamp::from_millis(self.clock.now().ms);
        match message {
            Message::Ping(ping) => {
                self.connections.has(to.connection, ping.map_epoch);
                effects.push(InstanceEffect::Answer {
                    to,
                    place,
                    message: &Message::Pong(Pong { map_epoch, now }),
                });
            }
            Message::SessionOpen(_) => {
                let session = SessionId { issued: self.clock.issue(), nonce: self.nonce() };
                let idle_ms = u32::try_from(SESSION_IDLE_MS).unwrap_or(u32::MAX);
                effects.push(InstanceEffect::Answer {
                    to,
                    place,
                    message: &Message::SessionOpened(SessionOpened { session, idle_ms }),
                });
            }
            Message::MapGet(get) => {
                let since = self.history.since(get.since);
                self.connections.has(to.connection, since.epoch);
                effects.push(InstanceEffect::Answer {
                    to,
                    place,
                    message: &Message::Map(since.as_message()),
                });
            }
            _ => {
                let failure = Failure::from(What::Unexpected);
                self.counters.failed(failure.code());
                effects.push(InstanceEffect::Answer { to, place, message: &Message::Answer(Err(failure)) });
            }
        }
    }

    /// Distinguishes sessions that different instances, or two starts of one instance, issue at the same time.
    fn nonce(&self) -> u64 {
        self.identity.incarnation.0 ^ u64::from(self.identity.instance.0).rotate_left(32)
    }
}

fn relay_place(envelope: &Envelope) -> AnswerOrigin {
    AnswerOrigin { keyspace: envelope.keyspace, partition: envelope.partition, ..AnswerOrigin::default() }
}

fn unavailable(relay: &mut Relay<'_>, to: Token) {
    relay.fail(to, Failure::Unavailable { retry_after_ms: UNAVAILABLE_RETRY_MS });
}

/// Whether a request was routed by the current map. Otherwise its client is sent the changes.
fn is_of_now(found: &Keyspace, envelope: &Envelope) -> bool {
    let Envelope { partition, partition_epoch, .. } = *envelope;
    found.group(partition).is_some_and(|group| partition_epoch.0 == 0 || group.epoch == partition_epoch)
}
