//! Objects in transactions: their records are read and written together with keys of other keyspaces.

use std::convert::Infallible;

use zerohop_client::Transaction;
use zerohop_layer_driver::{Layer, RecordStore, StoreError, decide_within};
use zerohop_layer_procedure::Decide;
use zerohop_objects::keys::RecordKey;
use zerohop_objects::{
    self as layer, Conditions, Lifetimes, ObjectError, ObjectLocation, ObjectRecord, Record, SetRecord,
};

use crate::client::ObjectClient;
use crate::cluster::{ClusterStore, failed};
use crate::writer::{PutSettings, WrittenBody};

/// The decisions of the layer of objects, which have no effect of their own.
enum ObjectDecisions {}

impl Layer for ObjectDecisions {
    type Error = ObjectError;
    type Own = Infallible;

    fn failed(error: StoreError) -> ObjectError {
        failed(error)
    }

    async fn carry_out(_: &RecordStore, own: Infallible) -> Result<(), StoreError> {
        match own {}
    }
}

impl ObjectClient<ClusterStore> {
    async fn decide_within<D: Decide<ObjectError>>(
        &self,
        transaction: &Transaction,
        decision: D,
    ) -> Result<D::Output, ObjectError> {
        match decide_within::<ObjectDecisions, _>(self.store().names(), transaction, decision).await {
            Err(ObjectError::Corrupt(key)) => Err(self.judge_corrupt(key).await),
            decided => decided,
        }
    }

    /// The error for a record that does not fit others that the transaction has read.
    ///
    /// Hazard: the transaction reads at several moments, and an object that it saw may be gone with its set. Its commit would be a
    /// conflict. So only a record that is corrupt by itself is reported as such.
    async fn judge_corrupt(&self, key: RecordKey) -> ObjectError {
        let found = match self.store().names().read(std::slice::from_ref(&key)).await {
            Ok(found) => found.into_iter().next().flatten(),
            Err(error) => return failed(error),
        };
        match found {
            Some(record) if key.first() != Some(&b's') || SetRecord::decode(&record.value).is_none() => {
                ObjectError::Corrupt(key)
            }
            _ => ObjectError::Busy,
        }
    }

    /// A transaction may stay open, so its readers get the time of grace from the sweep.
    const fn lifetimes_within(&self) -> Lifetimes {
        self.lifetimes.of_open_transaction()
    }

    /// Looks an object up in a transaction, which then commits only if the object is still the same. Its bytes are read as
    /// always, by [`read`](Self::read).
    ///
    /// # Errors
    /// [`ObjectError::NoSuchBucket`], [`ObjectError::NoSuchObject`], and those of the store.
    pub async fn find_within(
        &self,
        transaction: &Transaction,
        bucket: String,
        name: Vec<u8>,
    ) -> Result<ObjectLocation, ObjectError> {
        self.decide_within(transaction, layer::get_decision(bucket, name)).await
    }

    /// Makes a written body an object in a transaction: the object appears with all of its bytes if the transaction commits, and
    /// only then. Otherwise the sweep of a gateway removes the body.
    ///
    /// The commit is a conflict if another write of the object, or a sweep behind the time of the body, was first. An attempt
    /// behind such a sweep gets [`ObjectError::BodyExpired`].
    ///
    /// # Errors
    /// [`ObjectError::PreconditionFailed`], [`ObjectError::NoSuchObject`] and [`ObjectError::NoSuchBucket`];
    /// [`ObjectError::BodyExpired`] also if another transaction has used the body; [`ObjectError::Busy`] if the object that the
    /// transaction has read before was replaced meanwhile; those of the store.
    pub async fn publish_within(
        &self,
        transaction: &Transaction,
        body: &WrittenBody,
        settings: PutSettings,
    ) -> Result<ObjectRecord, ObjectError> {
        let put = body.clone().put(settings, self.lifetimes_within());
        let written = self.decide_within(transaction, layer::put_decision(put)).await;
        written.map(|written| written.object)
    }

    /// Copies an object with its metadata in a transaction. No bytes are moved.
    ///
    /// # Errors
    /// [`ObjectError::NoSuchBucket`], [`ObjectError::NoSuchObject`], [`ObjectError::PreconditionFailed`], and those of the store.
    pub async fn copy_within(
        &self,
        transaction: &Transaction,
        source: (String, Vec<u8>),
        target: (String, Vec<u8>),
        conditions: Conditions,
    ) -> Result<ObjectRecord, ObjectError> {
        let copy = self.new_copy(source, target, conditions, self.lifetimes_within());
        self.decide_within(transaction, layer::copy_decision(copy)).await
    }

    /// Removes an object in a transaction. Result: whether there is one. A bucket that keeps versions gets a delete marker.
    ///
    /// # Errors
    /// [`ObjectError::NoSuchBucket`], and those of the store.
    pub async fn delete_within(
        &self,
        transaction: &Transaction,
        bucket: String,
        name: Vec<u8>,
    ) -> Result<bool, ObjectError> {
        let delete = self.new_delete(bucket, name, self.lifetimes_within());
        self.decide_within(transaction, layer::delete_decision(delete)).await.map(|outcome| outcome.existed)
    }
}
