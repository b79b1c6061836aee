//! Requests that arrive in frames.

use std::borrow::Cow;

use zerohop_engine::disk::Disk;
use zerohop_placement::limits::{PARTITIONS_MAX, REGION_NUMBERS_MAX};
use zerohop_placement::{KeyOrder, Keyspace};
use zerohop_wire::ids::{KeyspaceId, PartitionId, SessionId, Timestamp};
use zerohop_wire::messages::{ClusterId, Hello, HelloAck, Pong, SessionOpened};
use zerohop_wire::{BadRequestReason, Envelope, Failure, FrameKind, Message};

use super::clock::ClockReading;
use super::effects_adapter::EffectsAdapter;
use super::{AnswerOrigin, Instance, InstanceEffect, InstanceEffects, effects_adapter};
use zerohop_partition::limits::{BUSY_RETRY_MS, SESSION_IDLE_MS, UNAVAILABLE_RETRY_MS};
use zerohop_partition::{Program, ProgramResult};
use zerohop_partition::{RecordRequest, Token};

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
        self.counters.count_request(kind);
        if let Message::Peer(peer) = message {
            self.peer(envelope, peer, effects);
            return;
        }
        if !kind.is_for_partition() {
            return self.about_cluster(to, message, effects, relay_origin(envelope));
        }
        let Envelope { keyspace, partition, partition_epoch, .. } = *envelope;
        if partition_epoch.0 == 0 && is_numbered(message) {
            return self.refuse_nameless(to, envelope, effects);
        }
        // A transaction that started before the drop still gets its outcome. A new one is refused as misplaced.
        let is_refused = self.readiness.is_dropping(keyspace) && kind != FrameKind::Transact;
        let request = RecordRequest { token: to, envelope: *envelope, message };
        let handled = match is_refused {
            true => None,
            false => self.with_partitions(effects, |by, context, adapter| {
                by.request((keyspace, partition), context, request, adapter)
            }),
        };
        match handled {
            Some(Ok(())) => {}
            Some(Err(error)) => self.counters.record_error(&error),
            None => self.answer_elsewhere(to, envelope, is_refused, effects),
        }
    }

    /// Refuses a write of a session that names no epoch. After a split, a number of a child's write could be that of another write
    /// of the parent, and be answered with its outcome.
    #[cold]
    fn refuse_nameless(&mut self, to: Token, envelope: &Envelope, effects: &mut dyn InstanceEffects) {
        let Instance { history, connections, counters, transit, .. } = self;
        let mut adapter = effects_adapter(history, connections, counters, transit, effects);
        adapter.origin = relay_origin(envelope);
        adapter.fail(to, BadRequestReason::NoEpoch.into());
    }

    /// Answers a request for a partition that is not here.
    #[cold]
    fn answer_elsewhere(
        &mut self,
        to: Token,
        envelope: &Envelope,
        is_refused: bool,
        effects: &mut dyn InstanceEffects,
    ) {
        let Instance { history, newest_keyspace, connections, counters, transit, splits, .. } = self;
        let Envelope { keyspace, partition, partition_epoch, .. } = *envelope;
        let mut adapter = effects_adapter(history, connections, counters, transit, effects);
        adapter.origin = relay_origin(envelope);
        match adapter.history.map().keyspace(keyspace) {
            _ if is_refused => adapter.fail(to, Failure::UnknownKeyspace { keyspace }),
            Some(found) if splits.awaits(keyspace, partition) && is_of_now(found, envelope) => {
                unavailable(&mut adapter, to);
                splits.prefer(keyspace, partition);
            }
            Some(found) if is_known(found, partition) => adapter.wrong_owner(to),
            Some(found) if partition.0 >= numbers_of(found) => {
                adapter.fail(to, BadRequestReason::NoSuchPartition.into());
            }
            // The client may know a newer map than this instance: one in which the keyspace has been split, or created.
            Some(_) => unavailable(&mut adapter, to),
            None if partition_epoch.0 != 0 && keyspace > *newest_keyspace => unavailable(&mut adapter, to),
            None => adapter.fail(to, Failure::UnknownKeyspace { keyspace }),
        }
    }

    /// Runs a program over the records of a partition as one atomic batch, whatever the partition's epoch, for protocols whose
    /// clients know no epochs. See [`zerohop_partition::Partition::run`]. An answer that needs durability waits for
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
        self.counters.atomic_batches += 1;
        let is_refused = self.readiness.is_dropping(keyspace);
        if self.readiness.awaits_split(keyspace, partition) && program.may_write_several() {
            let failure = Failure::Busy { retry_after_ms: BUSY_RETRY_MS };
            self.counters.failed(failure.code());
            return Err(failure);
        }
        let ran = match is_refused {
            true => None,
            false => self.run_here((keyspace, partition), to, (program, reply), effects),
        };
        if ran.is_none() && !is_refused {
            self.splits.prefer(keyspace, partition);
        }
        let result = ran.unwrap_or_else(|| match self.map().keyspace(keyspace) {
            Some(_) if !is_refused && self.splits.awaits(keyspace, partition) => {
                Err(Failure::Unavailable { retry_after_ms: UNAVAILABLE_RETRY_MS })
            }
            Some(_) if !is_refused => {
                Err(Failure::WrongOwner { epoch: self.map().epoch(), delta: Cow::Borrowed(&[]) })
            }
            _ => Err(Failure::UnknownKeyspace { keyspace }),
        });
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
                let failure = Failure::from(BadRequestReason::Unexpected);
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

fn relay_origin(envelope: &Envelope) -> AnswerOrigin {
    AnswerOrigin { keyspace: envelope.keyspace, partition: envelope.partition, ..AnswerOrigin::default() }
}

fn unavailable(adapter: &mut EffectsAdapter<'_>, to: Token) {
    adapter.fail(to, Failure::Unavailable { retry_after_ms: UNAVAILABLE_RETRY_MS });
}

/// Whether a keyspace has this partition, or had this region before a split.
fn is_known(found: &Keyspace, partition: PartitionId) -> bool {
    let division = found.division();
    division.position(partition).is_some() || !division.descendants(partition).is_empty()
}

/// The number above those that partitions of a keyspace may ever have.
fn numbers_of(found: &Keyspace) -> u32 {
    match found.config().order {
        KeyOrder::Hashed => PARTITIONS_MAX,
        KeyOrder::Ordered => REGION_NUMBERS_MAX,
    }
}

/// Whether a request has a number in a session, which counts in one partition only.
fn is_numbered(message: &Message<'_>) -> bool {
    match message {
        Message::Write { stamp, .. } => stamp.session.is_some(),
        Message::Batch(batch) => batch.stamp.session.is_some(),
        _ => false,
    }
}

/// Whether a request was routed by the current map. Otherwise its client is sent the changes.
fn is_of_now(found: &Keyspace, envelope: &Envelope) -> bool {
    let Envelope { partition, partition_epoch, .. } = *envelope;
    found.group(partition).is_some_and(|group| partition_epoch.0 == 0 || group.epoch == partition_epoch)
}
