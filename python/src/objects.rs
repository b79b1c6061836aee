//! The methods of `NativeBucket` and of its writers and readers: objects of a cluster, also within transactions.

use std::sync::Arc;

use bytes::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tokio::sync::Mutex;
use zerohop_client::{Client, Error, KeyOrder, Keyspace, Reason};
use zerohop_object_client::{
    ClusterStore, NameError, OBJECTS, ObjectClient, PutSettings, bodies_of, bucket_name, new_keyspace,
    object_name,
};
use zerohop_objects::{Conditions, ETagMatch, ListRequest, ObjectError, ObjectLocation, ObjectRecord, Pairs};
use zerohop_wire::admin::{AdminQuestion, REFUSED_EXISTS};

use crate::answer::PythonAnswer;
use crate::cluster;
use crate::memory::Memory;
use crate::object_handles::{
    NativeBucket, NativeObjectReader, NativeObjectWriter, Objects, OpenBucket, OpenReader, OpenWriter,
};
use crate::object_place::ObjectPlace;
use crate::outcome::{self, CallOutcome, UsedArguments};
use crate::problem::{LayerUse, Problem, broken};
use crate::transaction::NativeTransaction;

/// The bytes that are hashed and sent before the next look at the put.
const WRITE_BYTES: usize = 1 << 20;

/// The buckets of one request.
const PAGE_BUCKETS: usize = 1000;

/// What an object has besides its bytes, and its conditions.
#[derive(FromPyObject)]
pub(crate) struct PutArguments {
    attributes: Pairs,
    tags: Pairs,
    is_new: bool,
    if_match: Option<String>,
}

impl PutArguments {
    fn settings(self) -> PutSettings {
        let conditions = conditions(self.is_new, self.if_match);
        PutSettings { attributes: self.attributes, tags: self.tags, conditions }
    }
}

fn conditions(is_new: bool, if_match: Option<String>) -> Conditions {
    Conditions {
        if_match: if_match.map(|tag| ETagMatch::OneOf(vec![tag])),
        if_none_match: is_new.then_some(ETagMatch::Any),
    }
}

fn wrong_name(error: NameError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Why an operation has failed at a place.
fn failed_at(place: &ObjectPlace, used: LayerUse) -> impl Fn(ObjectError) -> Problem + '_ {
    move |error| Problem::Object { place: place.clone(), error, used }
}

/// The name of a bucket.
pub(crate) fn bucket_argument(name: &str) -> PyResult<String> {
    bucket_name(name).map_err(wrong_name)
}

fn is_absent(error: &Error) -> bool {
    matches!(error.reason(), Some(Reason::NoKeyspace { .. }))
}

/// The objects of a cluster; nothing if none were ever put.
async fn open_objects(client: &Client) -> Result<Option<Objects>, Problem> {
    let names = match client.keyspace(OBJECTS).await {
        Err(error) if is_absent(&error) => return Ok(None),
        found => found?,
    };
    let bodies = match client.keyspace(&bodies_of(OBJECTS)).await {
        Err(error) if is_absent(&error) => return Ok(None),
        found => found?,
    };
    Ok(Some(ObjectClient::new(ClusterStore::new(client, names, bodies))))
}

/// A keyspace; one that does not exist is created.
async fn open_or_create(client: &Client, name: &str, is_ordered: bool) -> Result<Keyspace, Problem> {
    match client.keyspace(name).await {
        Err(error) if is_absent(&error) => {}
        found => return Ok(found?),
    }
    let [on_disk, in_memory] = new_keyspace(name, is_ordered);
    let mut created = cluster::request(client, AdminQuestion::CreateKeyspace(on_disk)).await;
    if let Err(Problem::Client(Error::Refused { code, .. })) = &created
        && &**code != REFUSED_EXISTS
    {
        created = cluster::request(client, AdminQuestion::CreateKeyspace(in_memory)).await;
    }
    match created {
        // Another program was first.
        Err(Problem::Client(Error::Refused { code, .. })) if &*code == REFUSED_EXISTS => {}
        result => drop(result?),
    }
    Ok(client.keyspace(name).await?)
}

/// Opens the bucket of a name.
pub(crate) async fn open(client: &Client, name: String) -> Result<PythonAnswer, Problem> {
    let place = ObjectPlace::of_bucket(&name);
    let failed = failed_at(&place, LayerUse::Read);
    let objects = open_objects(client).await?.ok_or_else(|| failed(ObjectError::NoSuchBucket))?;
    objects.bucket(name.clone()).await.map_err(&failed)?;
    Ok(PythonAnswer::Bucket(Box::new(OpenBucket { name, objects })))
}

/// Creates a bucket, and opens it. The keyspaces of objects are created too.
pub(crate) async fn create(client: &Client, name: String) -> Result<PythonAnswer, Problem> {
    let place = ObjectPlace::of_bucket(&name);
    let failed = failed_at(&place, LayerUse::Write);
    let names = open_or_create(client, OBJECTS, true).await?;
    if names.config().order != KeyOrder::Ordered {
        let why = format!("keyspace {OBJECTS} is not ordered, so it cannot list objects");
        return Err(failed(ObjectError::Refused(why)));
    }
    let bodies = open_or_create(client, &bodies_of(OBJECTS), false).await?;
    let objects = ObjectClient::new(ClusterStore::new(client, names, bodies));
    objects.create_bucket(name.clone()).await.map_err(&failed)?;
    Ok(PythonAnswer::Bucket(Box::new(OpenBucket { name, objects })))
}

/// All buckets.
pub(crate) async fn list(client: &Client) -> Result<PythonAnswer, Problem> {
    let mut all: Vec<(String, u64)> = Vec::new();
    let Some(objects) = open_objects(client).await? else { return Ok(PythonAnswer::Buckets(all)) };
    loop {
        let after = all.last().map(|(name, _)| name.as_str());
        let page = objects.buckets(after, PAGE_BUCKETS).await;
        let (buckets, has_more) = page.map_err(failed_at(&ObjectPlace::of_bucket("*"), LayerUse::Read))?;
        all.extend(buckets.into_iter().map(|(name, bucket)| (name, bucket.created)));
        if !has_more {
            return Ok(PythonAnswer::Buckets(all));
        }
    }
}

/// Removes a bucket that has no objects.
pub(crate) async fn remove(client: &Client, name: String) -> Result<PythonAnswer, Problem> {
    let place = ObjectPlace::of_bucket(&name);
    let failed = failed_at(&place, LayerUse::Write);
    let objects = open_objects(client).await?.ok_or_else(|| failed(ObjectError::NoSuchBucket))?;
    objects.delete_bucket(name.clone()).await.map(|()| PythonAnswer::Nothing).map_err(&failed)
}

impl OpenBucket {
    fn place(&self, name: &str) -> PyResult<ObjectPlace> {
        object_name(name).map_err(wrong_name)?;
        Ok(ObjectPlace { bucket: self.name.clone(), name: Some(name.to_owned()) })
    }

    async fn find(&self, place: &ObjectPlace) -> Result<ObjectLocation, Problem> {
        let (bucket, name) = place.path();
        self.objects.find(bucket, name).await.map_err(failed_at(place, LayerUse::Read))
    }

    /// Bytes of an object that was found.
    async fn read(
        &self,
        place: &ObjectPlace,
        found: &ObjectLocation,
        (offset, length): (u64, u64),
    ) -> Result<PythonAnswer, Problem> {
        let mut reader = self.objects.read(found, offset, length);
        let mut all = Vec::new();
        while let Some(piece) = reader.next_piece().await.map_err(failed_at(place, LayerUse::Read))? {
            if all.is_empty() {
                all = piece;
            } else {
                all.extend_from_slice(&piece);
            }
        }
        Ok(PythonAnswer::Bytes(Some(Bytes::from(all))))
    }
}

fn described(place: &ObjectPlace, object: ObjectRecord) -> PythonAnswer {
    PythonAnswer::Object(place.name.clone().unwrap_or_default(), Box::new(object))
}

#[pymethods]
impl NativeBucket {
    /// Looks an object up.
    fn stat(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        let open = self.open(py)?;
        let place = open.place(name)?;
        outcome::run(&self.core, py, async move {
            open.find(&place).await.map(|found| described(&place, found.object)).into()
        })
    }

    /// Bytes of an object, both ends of the range cut at its end.
    fn get(&self, py: Python<'_>, name: &str, offset: u64, length: Option<u64>) -> PyResult<Py<PyAny>> {
        let open = self.open(py)?;
        let place = open.place(name)?;
        let range = (offset, length.unwrap_or(u64::MAX));
        outcome::run(&self.core, py, async move {
            match open.find(&place).await {
                Ok(found) => open.read(&place, &found, range).await,
                Err(problem) => Err(problem),
            }
            .into()
        })
    }

    /// The object, and a reader of its bytes.
    fn reader(&self, py: Python<'_>, name: &str, offset: u64, length: Option<u64>) -> PyResult<Py<PyAny>> {
        let open = self.open(py)?;
        let place = open.place(name)?;
        outcome::run(&self.core, py, async move {
            let found = open.find(&place).await;
            let answer = found.map(|found| {
                let reader = Mutex::new(open.objects.read(&found, offset, length.unwrap_or(u64::MAX)));
                PythonAnswer::ObjectReader(Box::new((found.object, OpenReader { place, reader })))
            });
            answer.into()
        })
    }

    /// Begins to put an object.
    fn writer(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        let open = self.open(py)?;
        let place = open.place(name)?;
        outcome::run(&self.core, py, async move {
            let (bucket, name) = place.path();
            let begun = open.objects.put(bucket, name).await.map_err(failed_at(&place, LayerUse::Read));
            let answer = begun.map(|writer| {
                let (objects, writer) = (open.objects.clone(), Mutex::new(Some(writer)));
                PythonAnswer::ObjectWriter(Box::new(OpenWriter { place: place.clone(), objects, writer }))
            });
            answer.into()
        })
    }

    /// A page of the objects and common prefixes, and whether there are more.
    fn list(
        &self,
        py: Python<'_>,
        prefix: String,
        delimiter: Option<String>,
        after: Option<String>,
        max: usize,
    ) -> PyResult<Py<PyAny>> {
        let open = self.open(py)?;
        outcome::run(&self.core, py, async move {
            let request = ListRequest {
                bucket: open.name.clone(),
                prefix: prefix.into_bytes(),
                delimiter: delimiter.map(String::into_bytes),
                after: after.map(String::into_bytes),
                after_id: None,
                max,
            };
            let place = ObjectPlace::of_bucket(&open.name);
            let page = open.objects.objects(request).await.map_err(failed_at(&place, LayerUse::Read));
            page.map(|page| PythonAnswer::ObjectPage(page.entries, page.is_truncated)).into()
        })
    }

    /// Removes an object. Returns whether there was one.
    fn delete(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        let open = self.open(py)?;
        let place = open.place(name)?;
        outcome::run(&self.core, py, async move {
            let (bucket, name) = place.path();
            let removed = open.objects.delete(bucket, name).await;
            removed.map(PythonAnswer::Flag).map_err(failed_at(&place, LayerUse::Write)).into()
        })
    }

    /// Copies an object, with the same metadata.
    fn copy(
        &self,
        py: Python<'_>,
        name: &str,
        target: (String, String),
        is_new: bool,
        if_match: Option<String>,
    ) -> PyResult<Py<PyAny>> {
        let open = self.open(py)?;
        let (source, target) = (open.place(name)?, target_place(target)?);
        outcome::run(&self.core, py, async move {
            let conditions = conditions(is_new, if_match);
            let copied = open.objects.copy(source.path(), target.path(), conditions).await;
            let place = place_of_copy(&source, &target, &copied);
            copied.map(|object| described(&target, object)).map_err(failed_at(place, LayerUse::Write)).into()
        })
    }

    /// Looks an object up in a transaction.
    fn stat_within(
        &self,
        py: Python<'_>,
        transaction: &NativeTransaction,
        name: &str,
    ) -> PyResult<Py<PyAny>> {
        let open = self.open(py)?;
        let place = open.place(name)?;
        let transaction = transaction.transaction().clone();
        outcome::run(&self.core, py, async move {
            let (bucket, name) = place.path();
            let found = open.objects.find_within(&transaction, bucket, name).await;
            found
                .map(|found| described(&place, found.object))
                .map_err(failed_at(&place, LayerUse::Read))
                .into()
        })
    }

    /// Bytes of an object as a transaction sees it.
    fn get_within(
        &self,
        py: Python<'_>,
        transaction: &NativeTransaction,
        name: &str,
        offset: u64,
        length: Option<u64>,
    ) -> PyResult<Py<PyAny>> {
        let open = self.open(py)?;
        let place = open.place(name)?;
        let transaction = transaction.transaction().clone();
        let range = (offset, length.unwrap_or(u64::MAX));
        outcome::run(&self.core, py, async move {
            let (bucket, name) = place.path();
            let found = open.objects.find_within(&transaction, bucket, name).await;
            match found.map_err(failed_at(&place, LayerUse::Read)) {
                Ok(found) => open.read(&place, &found, range).await,
                Err(problem) => Err(problem),
            }
            .into()
        })
    }

    /// Removes an object in a transaction. Returns whether there is one.
    fn delete_within(
        &self,
        py: Python<'_>,
        transaction: &NativeTransaction,
        name: &str,
    ) -> PyResult<Py<PyAny>> {
        let open = self.open(py)?;
        let place = open.place(name)?;
        let transaction = transaction.transaction().clone();
        outcome::run(&self.core, py, async move {
            let (bucket, name) = place.path();
            let removed = open.objects.delete_within(&transaction, bucket, name).await;
            // Nothing is written before the commit.
            removed.map(PythonAnswer::Flag).map_err(failed_at(&place, LayerUse::Read)).into()
        })
    }

    /// Copies an object in a transaction.
    fn copy_within(
        &self,
        py: Python<'_>,
        transaction: &NativeTransaction,
        name: &str,
        target: (String, String),
        is_new: bool,
        if_match: Option<String>,
    ) -> PyResult<Py<PyAny>> {
        let open = self.open(py)?;
        let (source, target) = (open.place(name)?, target_place(target)?);
        let transaction = transaction.transaction().clone();
        outcome::run(&self.core, py, async move {
            let conditions = conditions(is_new, if_match);
            let copied =
                open.objects.copy_within(&transaction, source.path(), target.path(), conditions).await;
            let place = place_of_copy(&source, &target, &copied);
            copied.map(|object| described(&target, object)).map_err(failed_at(place, LayerUse::Read)).into()
        })
    }
}

fn target_place((bucket, name): (String, String)) -> PyResult<ObjectPlace> {
    object_name(&name).map_err(wrong_name)?;
    Ok(ObjectPlace { bucket: bucket_argument(&bucket)?, name: Some(name) })
}

/// What an error of a copy is about: a condition is one of the target.
fn place_of_copy<'a>(
    source: &'a ObjectPlace,
    target: &'a ObjectPlace,
    copied: &Result<ObjectRecord, ObjectError>,
) -> &'a ObjectPlace {
    match copied {
        Err(ObjectError::PreconditionFailed) => target,
        _ => source,
    }
}

impl NativeBucket {
    fn open(&self, py: Python<'_>) -> PyResult<Arc<OpenBucket>> {
        self.core.client().map_err(|problem| problem.exception(py))?;
        self.open.get().cloned().ok_or_else(|| broken("a bucket is gone"))
    }
}

impl OpenWriter {
    fn ended(&self) -> Problem {
        failed_at(&self.place, LayerUse::Read)(ObjectError::Refused("the put has ended".to_owned()))
    }

    /// Adds bytes. After a failure, and if the call is dropped, the put has ended.
    async fn write(&self, bytes: &Memory) -> Result<PythonAnswer, Problem> {
        let mut slot = self.writer.lock().await;
        let mut writer = slot.take().ok_or_else(|| self.ended())?;
        for at in (0..bytes.len()).step_by(WRITE_BYTES) {
            let written = writer.write(bytes.slice(at, WRITE_BYTES)).await;
            written.map_err(failed_at(&self.place, LayerUse::Read))?;
        }
        *slot = Some(writer);
        Ok(PythonAnswer::Nothing)
    }

    async fn publish(&self, settings: PutSettings) -> Result<PythonAnswer, Problem> {
        let writer = self.writer.lock().await.take().ok_or_else(|| self.ended())?;
        let stored = writer.publish(settings).await.map_err(failed_at(&self.place, LayerUse::Write))?;
        Ok(described(&self.place, stored))
    }
}

#[pymethods]
impl NativeObjectWriter {
    /// Adds bytes.
    fn write(&self, py: Python<'_>, bytes: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let bytes = Arc::new(Memory::readable(bytes)?);
        let open = self.open(py)?;
        outcome::run(&self.core, py, async move {
            let result = open.write(&bytes).await;
            CallOutcome { result, spent: UsedArguments::Memory(bytes) }
        })
    }

    /// Makes the object visible. Returns it.
    fn publish(&self, py: Python<'_>, put: PutArguments) -> PyResult<Py<PyAny>> {
        let open = self.open(py)?;
        outcome::run(&self.core, py, async move { open.publish(put.settings()).await.into() })
    }

    /// Makes the object visible if the transaction commits. Returns it.
    fn publish_within(
        &self,
        py: Python<'_>,
        transaction: &NativeTransaction,
        put: PutArguments,
    ) -> PyResult<Py<PyAny>> {
        let open = self.open(py)?;
        let transaction = transaction.transaction().clone();
        outcome::run(&self.core, py, async move {
            let failed = failed_at(&open.place, LayerUse::Read);
            let Some(writer) = open.writer.lock().await.take() else { return Err(open.ended()).into() };
            let stored = match writer.finish().await {
                Ok(body) => open.objects.publish_within(&transaction, &body, put.settings()).await,
                Err(error) => Err(error),
            };
            stored.map(|object| described(&open.place, object)).map_err(failed).into()
        })
    }
}

impl NativeObjectWriter {
    fn open(&self, py: Python<'_>) -> PyResult<Arc<OpenWriter>> {
        self.core.client().map_err(|problem| problem.exception(py))?;
        self.open.get().cloned().ok_or_else(|| broken("a put is gone"))
    }
}

#[pymethods]
impl NativeObjectReader {
    /// The next bytes; `None` at the end.
    fn next_piece(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.core.client().map_err(|problem| problem.exception(py))?;
        let open = self.open.get().cloned().ok_or_else(|| broken("a reader is gone"))?;
        outcome::run(&self.core, py, async move {
            let piece = open.reader.lock().await.next_piece().await;
            piece
                .map(|piece| PythonAnswer::Bytes(piece.map(Bytes::from)))
                .map_err(failed_at(&open.place, LayerUse::Read))
                .into()
        })
    }
}
