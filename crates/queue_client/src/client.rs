//! A queue of a cluster.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use zerohop_client::{Client, Error, Transaction};
use zerohop_layer_driver::{RecordStore, StorageSettings, decide_within, run};
use zerohop_layer_procedure::{RecordKey, Version};
use zerohop_layer_queue::{
    self as layer, ConsumerId, CreateQueue, DeadPage, ListDead, MessageId, NewMessage, PartitionStatistics,
    ProducerId, PushRequest, QueueError, QueueOptions, QueueProcedure, ReadStatistics, Receipt, SettleAction,
    SettleRequest, Sweep, keys,
};
use zerohop_placement::HashKind;
use zerohop_wire::admin::KeyspaceSettings;

use crate::layer::{Queues, failed};
use crate::lease_token::LeaseToken;
use crate::retry;

/// Why a queue was not opened.
#[derive(Debug)]
pub enum OpenError {
    /// The client found no keyspace of this name, or none that it may read.
    Client(Error),
    /// The keyspace has no queue, or its queue cannot be read.
    Queue(QueueError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Queue(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

impl From<QueueError> for OpenError {
    fn from(error: QueueError) -> Self {
        Self::Queue(error)
    }
}

/// The settings of the keyspace of a queue, which a manager creates. It is ordered, with a region for each partition.
#[must_use]
pub fn new_queue(name: String, partitions: u32, settings: StorageSettings) -> KeyspaceSettings {
    settings.keyspace(name, keys::separators(partitions))
}

/// A queue.
#[derive(Clone, Debug)]
pub struct QueueClient {
    pub(crate) store: RecordStore,
    options: QueueOptions,
    /// How many messages this process has pushed since its consumers looked, by partition. Clones share it.
    pushed: Arc<Mutex<BTreeMap<u32, u64>>>,
}

impl QueueClient {
    /// Opens the queue of a name.
    ///
    /// # Errors
    /// [`OpenError::Client`] if there is no keyspace of this name; [`QueueError::NoSuchQueue`] if it has no queue.
    pub async fn open(client: &Client, name: &str) -> Result<Self, OpenError> {
        let store = open_store(client, name).await?;
        let options = run::<Queues, _>(&store, layer::read_options()).await?;
        Ok(Self { store, options, pushed: Arc::default() })
    }

    /// Makes a keyspace of the settings of [`new_queue`] a queue. A keyspace that was created before, and has no
    /// records, becomes one too.
    ///
    /// # Errors
    /// [`QueueError::QueueExists`], and [`QueueError::NoSuchQueue`] if the keyspace is none of a queue of so many partitions.
    pub async fn create(client: &Client, name: &str, create: CreateQueue) -> Result<Self, OpenError> {
        let store = open_store(client, name).await?;
        match run::<Queues, _>(&store, layer::read_options()).await {
            Ok(_) => return Err(QueueError::QueueExists.into()),
            Err(QueueError::NoSuchQueue) => {}
            Err(error) => return Err(error.into()),
        }
        if !store.is_new(&keys::separators(create.partitions)).await.map_err(failed)? {
            return Err(QueueError::NoSuchQueue.into());
        }
        let options = run::<Queues, _>(&store, layer::create_queue(create)).await?;
        Ok(Self { store, options, pushed: Arc::default() })
    }

    /// Its options.
    #[must_use]
    pub const fn options(&self) -> &QueueOptions {
        &self.options
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.store.now()
    }

    /// What leases have of the id of the queue.
    pub(crate) fn tag(&self) -> u32 {
        let [first, second, third, fourth, ..] = self.options.id;
        u32::from_be_bytes([first, second, third, fourth])
    }

    fn check_leases(&self, leases: &[LeaseToken]) -> Result<(), QueueError> {
        let is_own =
            |lease: &LeaseToken| lease.queue == self.tag() && lease.partition < self.options.partitions;
        if leases.iter().all(is_own) { Ok(()) } else { Err(QueueError::OtherQueue) }
    }

    pub(crate) fn random(&self) -> [u8; 16] {
        self.store.random()
    }

    pub(crate) async fn run<P: QueueProcedure>(&self, procedure: P) -> Result<P::Output, QueueError> {
        run::<Queues, _>(&self.store, procedure).await
    }

    /// The partition of a message; nothing for one that may go to any.
    #[must_use]
    pub fn partition_of(&self, message: &NewMessage) -> Option<u32> {
        let name = message.group.as_ref().or(message.name.as_ref())?;
        let hash = HashKind::Xxh3.hash(0, name.as_bytes());
        Some((hash % u64::from(self.options.partitions.max(1))) as u32)
    }

    /// Settles leases, each in a transaction with the others of its partition and consumer. While the cluster does not answer, it is
    /// repeated until `until`, in milliseconds since 1970. Result: the leases that have lapsed or were settled before, and those that were
    /// extended.
    ///
    /// # Errors
    /// [`QueueError::BadLease`], [`QueueError::OtherQueue`], and those of the store: some of the leases may be settled.
    pub async fn settle(
        &self,
        leases: &[LeaseToken],
        action: SettleAction,
        until: u64,
    ) -> Result<(Vec<LeaseToken>, Vec<LeaseToken>), QueueError> {
        self.check_leases(leases)?;
        let (mut lapsed, mut extended) = (Vec::new(), Vec::new());
        for ((partition, consumer), receipts) in by_consumer(leases) {
            let tries = self.options.tries;
            let request =
                SettleRequest { partition, consumer, receipts, action, tries, is_repeatable: false };
            // Only the repetition of an attempt without an answer may find that the leases are settled.
            let attempt =
                |is_repeatable: bool| layer::settle(SettleRequest { is_repeatable, ..request.clone() });
            let outcome = retry::run(&self.store, until, attempt).await?;
            let queue = self.tag();
            let token = |receipt: Receipt| LeaseToken { queue, partition, consumer, receipt };
            lapsed.extend(outcome.lapsed.into_iter().map(token));
            extended.extend(outcome.extended.into_iter().map(token));
        }
        Ok((lapsed, extended))
    }

    /// Acknowledges messages in a transaction: they are processed if it commits, and only then. So their effects in the
    /// transaction are there exactly once.
    ///
    /// # Errors
    /// [`QueueError::OtherQueue`]; [`QueueError::LeaseLapsed`], also for a message that was acknowledged before, after which the caller aborts the transaction, and those of the store.
    pub async fn acknowledge_within(
        &self,
        transaction: &Transaction,
        leases: &[LeaseToken],
    ) -> Result<(), QueueError> {
        self.check_leases(leases)?;
        for ((partition, consumer), receipts) in by_consumer(leases) {
            let (action, tries) = (SettleAction::Acknowledge, self.options.tries);
            let request =
                SettleRequest { partition, consumer, receipts, action, tries, is_repeatable: false };
            let decision = layer::settle_decision(request);
            let outcome = decide_within::<Queues, _>(&self.store, transaction, decision).await?;
            if !outcome.lapsed.is_empty() {
                return Err(QueueError::LeaseLapsed);
            }
        }
        Ok(())
    }

    /// Pushes messages in a transaction: they are there if it commits, and only then.
    ///
    /// # Errors
    /// [`QueueError::MessageTooLong`], [`QueueError::BadName`], and those of the store.
    pub async fn push_within(
        &self,
        transaction: &Transaction,
        messages: Vec<NewMessage>,
    ) -> Result<Vec<MessageId>, QueueError> {
        let producer = ProducerId(self.random());
        let mut ids = vec![MessageId::default(); messages.len()];
        let mut parts: BTreeMap<u32, (Vec<usize>, Vec<NewMessage>)> = BTreeMap::new();
        let any = u32::from(producer.0[0]) % self.options.partitions.max(1);
        for (index, message) in messages.into_iter().enumerate() {
            let partition = self.partition_of(&message).unwrap_or(any);
            let (indexes, messages) = parts.entry(partition).or_default();
            indexes.push(index);
            messages.push(message);
        }
        let mut first = 1;
        for (partition, (indexes, messages)) in parts {
            let count = messages.len() as u64;
            let names = self.options.names;
            // The transaction is done once or not at all, so the partition need not remember the producer.
            let request = PushRequest { partition, producer, first, messages, names, is_remembered: false };
            let decision = layer::push_decision(request);
            let outcome = decide_within::<Queues, _>(&self.store, transaction, decision).await?;
            indexes.into_iter().zip(outcome.messages).for_each(|(index, id)| ids[index] = id);
            first += count;
        }
        Ok(ids)
    }

    /// The messages of a partition.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn statistics(&self, partition: u32) -> Result<PartitionStatistics, QueueError> {
        self.run(ReadStatistics::new(partition)).await
    }

    /// The messages of a partition, in at most three requests: of the leased and delayed ones it counts the first thousand.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn brief_statistics(&self, partition: u32) -> Result<PartitionStatistics, QueueError> {
        self.run(ReadStatistics::brief(partition)).await
    }

    /// Dead letters of a partition, the oldest first, from the beginning or from where a page ended.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn dead(
        &self,
        partition: u32,
        from: Option<RecordKey>,
        letters: usize,
    ) -> Result<DeadPage, QueueError> {
        self.run(ListDead::new(partition, from, letters)).await
    }

    /// Pushes dead letters again: they are named by the moment when they became dead letters, and by their ids. While the cluster does
    /// not answer, this is repeated until `until`, in milliseconds since 1970. Result: how many were still there at the last
    /// attempt.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn redrive(
        &self,
        partition: u32,
        letters: Vec<(u64, MessageId)>,
        until: u64,
    ) -> Result<usize, QueueError> {
        retry::run(&self.store, until, |_| layer::redrive_dead(partition, letters.clone())).await
    }

    /// Removes dead letters. While the cluster does not answer, this is repeated until `until`, in milliseconds since 1970. Result:
    /// how many were still there at the last attempt.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn purge(
        &self,
        partition: u32,
        letters: Vec<(u64, MessageId)>,
        until: u64,
    ) -> Result<usize, QueueError> {
        retry::run(&self.store, until, |_| layer::purge_dead(partition, letters.clone())).await
    }

    /// Removes names that no longer count, and clients that are gone. Consumers do this from time to time.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn sweep(&self, partition: u32) -> Result<u64, QueueError> {
        self.run(Sweep::new(partition)).await
    }

    /// Notes messages that this process has pushed: a hint for its consumers.
    pub(crate) fn note_pushed(&self, partition: u32, messages: u64) {
        let mut pushed = self.pushed.lock().unwrap_or_else(PoisonError::into_inner);
        *pushed.entry(partition).or_default() += messages;
    }

    /// Takes the hints of [`Self::note_pushed`]: each goes to one consumer.
    pub(crate) fn take_pushed(&self, note: impl FnMut(u32, u64)) {
        let pushed = std::mem::take(&mut *self.pushed.lock().unwrap_or_else(PoisonError::into_inner));
        let mut note = note;
        pushed.into_iter().for_each(|(partition, messages)| note(partition, messages));
    }

    /// Waits until one of these records has another version, or until a moment in milliseconds since 1970.
    pub(crate) async fn wait_any(
        &self,
        counts: Vec<(RecordKey, Version)>,
        until: u64,
    ) -> Result<(), QueueError> {
        self.store.wait_any_changed(counts, until).await.map_err(failed)
    }
}

fn by_consumer(leases: &[LeaseToken]) -> BTreeMap<(u32, ConsumerId), Vec<Receipt>> {
    let mut all: BTreeMap<(u32, ConsumerId), Vec<Receipt>> = BTreeMap::new();
    for LeaseToken { partition, consumer, receipt, .. } in leases {
        all.entry((*partition, *consumer)).or_default().push(*receipt);
    }
    all
}

async fn open_store(client: &Client, name: &str) -> Result<RecordStore, OpenError> {
    RecordStore::open(client, name).await?.ok_or_else(|| QueueError::NoSuchQueue.into())
}
