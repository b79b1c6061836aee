//! The operations of programs on buckets and objects.

use std::collections::VecDeque;

use zerohop_objects::{
    self as layer, BodyRange, BucketRecord, Conditions, CopyObject, DeleteBucket, DeleteObject, Lifetimes,
    ListBuckets, ListPage, ListRequest, ObjectError, ObjectLocation, ObjectRecord, Store,
};

use crate::writer::ObjectWriter;

/// The most bytes of one read.
const PIECE_BYTES: u64 = 1 << 20;

/// Buckets and objects in a store.
#[derive(Clone, Debug)]
pub struct ObjectClient<S> {
    store: S,
    pub(crate) lifetimes: Lifetimes,
}

/// The bytes of an object, as it was when it was looked up. They stay readable for some minutes after it is replaced or removed.
pub struct ObjectReader<S> {
    store: S,
    rest: VecDeque<BodyRange>,
}

impl<S: Store + Clone> ObjectClient<S> {
    /// The objects of a store, with the default lifetimes of bodies, which all of its clients share.
    #[must_use]
    pub fn new(store: S) -> Self {
        Self { store, lifetimes: Lifetimes::default() }
    }

    /// The store.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// Creates a bucket.
    ///
    /// # Errors
    /// [`ObjectError::BucketExists`], and those of the store.
    pub async fn create_bucket(&self, name: String) -> Result<BucketRecord, ObjectError> {
        layer::run(&self.store, layer::create_bucket(name, Vec::new())).await
    }

    /// Looks a bucket up.
    ///
    /// # Errors
    /// [`ObjectError::NoSuchBucket`], and those of the store.
    pub async fn bucket(&self, name: String) -> Result<BucketRecord, ObjectError> {
        layer::run(&self.store, layer::head_bucket(name)).await
    }

    /// Removes a bucket that has no objects. Uploads in progress are aborted.
    ///
    /// # Errors
    /// [`ObjectError::NoSuchBucket`], [`ObjectError::BucketNotEmpty`], and those of the store.
    pub async fn delete_bucket(&self, name: String) -> Result<(), ObjectError> {
        layer::run(&self.store, DeleteBucket::new(name)).await
    }

    /// At most `max` buckets above `after`, in the order of their names, and whether there are more.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn buckets(
        &self,
        after: Option<&str>,
        max: usize,
    ) -> Result<(Vec<(String, BucketRecord)>, bool), ObjectError> {
        layer::run(&self.store, ListBuckets::new(String::new(), after, max)).await
    }

    /// A page of the objects of a bucket.
    ///
    /// # Errors
    /// [`ObjectError::NoSuchBucket`], and those of the store.
    pub async fn objects(&self, request: ListRequest) -> Result<ListPage<ObjectRecord>, ObjectError> {
        layer::run(&self.store, layer::list_objects(request)).await
    }

    /// Looks an object up.
    ///
    /// # Errors
    /// [`ObjectError::NoSuchBucket`], [`ObjectError::NoSuchObject`], and those of the store.
    pub async fn find(&self, bucket: String, name: Vec<u8>) -> Result<ObjectLocation, ObjectError> {
        layer::run(&self.store, layer::get_object(bucket, name)).await
    }

    /// Reads `length` bytes of an object from `offset` on, both of which are cut at its end.
    pub fn read(&self, found: &ObjectLocation, offset: u64, length: u64) -> ObjectReader<S> {
        ObjectReader { store: self.store.clone(), rest: found.ranges(offset, length).into() }
    }

    /// Begins to put an object.
    ///
    /// # Errors
    /// [`ObjectError::NoSuchBucket`], and those of the store.
    pub async fn put(&self, bucket: String, name: Vec<u8>) -> Result<ObjectWriter<S>, ObjectError> {
        ObjectWriter::begin(self.store.clone(), self.lifetimes, (bucket, name)).await
    }

    /// Copies an object with its metadata in one transaction. No bytes are moved.
    ///
    /// # Errors
    /// [`ObjectError::NoSuchBucket`], [`ObjectError::NoSuchObject`], [`ObjectError::PreconditionFailed`], and those of the store.
    pub async fn copy(
        &self,
        source: (String, Vec<u8>),
        target: (String, Vec<u8>),
        conditions: Conditions,
    ) -> Result<ObjectRecord, ObjectError> {
        let copy = self.new_copy(source, target, conditions, self.lifetimes);
        layer::run(&self.store, layer::copy_object(copy)).await
    }

    /// A copy with all that the source has.
    pub(crate) fn new_copy(
        &self,
        source: (String, Vec<u8>),
        target: (String, Vec<u8>),
        conditions: Conditions,
        lifetimes: Lifetimes,
    ) -> CopyObject {
        CopyObject {
            source,
            source_version: None,
            draw: self.draw(),
            target,
            check_source: Box::new(|_| Ok(())),
            attributes: None,
            tags: None,
            conditions,
            lifetimes,
        }
    }

    /// Random bytes for the id of a version.
    fn draw(&self) -> [u8; 8] {
        let random = self.store.random();
        let mut draw = [0; 8];
        draw.copy_from_slice(&random[..8]);
        draw
    }

    /// Removes an object. Result: whether there was one. A bucket that keeps versions gets a delete marker.
    ///
    /// # Errors
    /// [`ObjectError::NoSuchBucket`], and those of the store.
    pub async fn delete(&self, bucket: String, name: Vec<u8>) -> Result<bool, ObjectError> {
        let delete = self.new_delete(bucket, name, self.lifetimes);
        layer::run(&self.store, layer::delete_object(delete)).await.map(|outcome| outcome.existed)
    }

    /// A removal of the current object.
    pub(crate) fn new_delete(&self, bucket: String, name: Vec<u8>, lifetimes: Lifetimes) -> DeleteObject {
        let (draw, conditions) = (self.draw(), Conditions::default());
        DeleteObject { bucket, name, version: None, draw, conditions, lifetimes }
    }
}

impl<S: Store> ObjectReader<S> {
    /// The next bytes, at most 1 MiB; `None` at the end.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn next_piece(&mut self) -> Result<Option<Vec<u8>>, ObjectError> {
        let Some(range) = self.rest.front_mut() else { return Ok(None) };
        let length = range.length.min(PIECE_BYTES);
        let piece = self.store.read_body(range.body, range.offset, length).await?;
        range.offset += length;
        range.length -= length;
        if range.length == 0 {
            self.rest.pop_front();
        }
        Ok(Some(piece))
    }
}
