//! Objects in transactions of a cluster: they appear, are copied and removed together with keys of another keyspace.

use std::path::Path;

use zerohop_client::{Client, Keyspace};
use zerohop_object_client::{ClusterStore, ObjectClient, PutSettings, WrittenBody, bodies_of};
use zerohop_objects::{
    BodyDeletion, Conditions, ETagMatch, Event, Lifetimes, ObjectError, Procedure, Step, Sweep, run,
};

use crate::support::folder;
use crate::support::serving::{ServingProgram, code, output, stdout, zerohop};

const BUCKET: &str = "papers";

struct ObjectCluster {
    program: ServingProgram,
    client: Client,
    objects: ObjectClient<ClusterStore>,
    index: Keyspace,
}

impl ObjectCluster {
    async fn start(folder: &Path) -> Self {
        let program =
            ServingProgram::up(&["--instances", "2", "--data", folder.join("data").to_str().unwrap()]);
        let made = zerohop(&["object", "mb", BUCKET, "--endpoint", program.endpoint()]);
        assert_eq!(code(&output(made, b"")), 0);
        let client = Client::connect(program.endpoint()).await.unwrap();
        let names = client.keyspace("objects").await.unwrap();
        let bodies = client.keyspace(&bodies_of("objects")).await.unwrap();
        let objects = ObjectClient::new(ClusterStore::new(&client, names, bodies));
        let index = client.keyspace("default").await.unwrap();
        Self { program, client, objects, index }
    }

    async fn write(&self, name: &str, bytes: &[u8]) -> WrittenBody {
        let mut writer = self.objects.put(BUCKET.to_owned(), name.into()).await.unwrap();
        for piece in bytes.chunks(100_000) {
            writer.write(piece).await.unwrap();
        }
        writer.finish().await.unwrap()
    }

    async fn bytes(&self, name: &str) -> Result<Vec<u8>, ObjectError> {
        let found = self.objects.find(BUCKET.to_owned(), name.into()).await?;
        let mut reader = self.objects.read(&found, 0, u64::MAX);
        let mut all = Vec::new();
        while let Some(piece) = reader.next_piece().await? {
            all.extend(piece);
        }
        Ok(all)
    }

    async fn value(&self, key: &str) -> Option<Vec<u8>> {
        self.index.lookup_bytes(key).await.unwrap().map(|value| value.to_vec())
    }

    /// What a gateway does, at a later time.
    async fn sweep_later(&self, minutes: u64) {
        let (sweep, later) = (Sweep::new(Lifetimes::default(), 1000), minutes * 60_000);
        run(self.objects.store(), Later(sweep, later)).await.unwrap();
    }

    /// The report of `zerohop object check`, which finds no fault.
    fn check(&self) -> serde_json::Value {
        let check = zerohop(&["object", "check", "--json", "--endpoint", self.program.endpoint()]);
        let ended = output(check, b"");
        assert_eq!(code(&ended), 0, "{}", stdout(&ended));
        serde_json::from_str(&stdout(&ended)).unwrap()
    }
}

/// A procedure whose clock is so many milliseconds ahead.
struct Later<P>(P, u64);

impl<P: Procedure> zerohop_layer_procedure::Procedure<ObjectError, BodyDeletion> for Later<P> {
    type Output = P::Output;

    fn step(&mut self, now: u64, event: Event) -> Step<P::Output> {
        self.0.step(now + self.1, event)
    }
}

fn path(name: &str) -> (String, Vec<u8>) {
    (BUCKET.to_owned(), name.into())
}

#[tokio::test]
async fn object_appears_with_a_key_of_another_keyspace_or_not_at_all() {
    let folder = folder();
    let cluster = ObjectCluster::start(folder.path()).await;
    let ObjectCluster { client, objects, index, .. } = &cluster;
    let long = b"0123456789".repeat(300_000);

    let body = cluster.write("long", &long).await;
    let transaction = client.begin();
    let stored = objects.publish_within(&transaction, &body, PutSettings::default()).await.unwrap();
    assert_eq!(stored.size, 3_000_000);
    let own = objects.find_within(&transaction, BUCKET.to_owned(), b"long".to_vec()).await.unwrap();
    assert_eq!(own.object.etag, stored.etag);
    transaction.insert(index, "long", b"1").unwrap();
    assert_eq!(cluster.bytes("long").await, Err(ObjectError::NoSuchObject));
    transaction.abort();
    assert_eq!(
        (cluster.bytes("long").await, cluster.value("long").await),
        (Err(ObjectError::NoSuchObject), None)
    );

    // The same body, in another attempt.
    let transaction = client.begin();
    objects.publish_within(&transaction, &body, PutSettings::default()).await.unwrap();
    transaction.insert(index, "long", b"1").unwrap();
    transaction.commit().await.unwrap();
    assert!(cluster.bytes("long").await.unwrap() == long);
    assert_eq!(cluster.value("long").await, Some(b"1".to_vec()));
    let again = objects.publish_within(&client.begin(), &body, PutSettings::default()).await;
    assert_eq!(again, Err(ObjectError::BodyExpired));

    let transaction = client.begin();
    objects.copy_within(&transaction, path("long"), path("copy"), Conditions::default()).await.unwrap();
    assert!(objects.delete_within(&transaction, BUCKET.to_owned(), b"long".to_vec()).await.unwrap());
    transaction.remove(index, "long").unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(cluster.bytes("long").await, Err(ObjectError::NoSuchObject));
    assert!(cluster.bytes("copy").await.unwrap() == long);
    let report = cluster.check();
    assert_eq!((&report["objects"], &report["bodies"]), (&1.into(), &1.into()), "{report}");
}

#[tokio::test]
async fn of_two_transactions_that_put_one_object_one_commits_and_no_body_stays() {
    let folder = folder();
    let cluster = ObjectCluster::start(folder.path()).await;
    let ObjectCluster { client, objects, index, .. } = &cluster;
    let (first, second) = (cluster.write("one", b"first").await, cluster.write("one", b"second").await);
    let (winner, loser) = (client.begin(), client.begin());
    objects.publish_within(&winner, &first, PutSettings::default()).await.unwrap();
    objects.publish_within(&loser, &second, PutSettings::default()).await.unwrap();
    winner.insert(index, "winner", b"first").unwrap();
    loser.insert(index, "winner", b"second").unwrap();
    winner.commit().await.unwrap();
    let error = loser.commit().await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert_eq!(cluster.bytes("one").await.unwrap(), b"first");
    assert_eq!(cluster.value("winner").await, Some(b"first".to_vec()));

    let if_absent = Conditions { if_none_match: Some(ETagMatch::Any), ..Conditions::default() };
    let settings = PutSettings { conditions: if_absent, ..PutSettings::default() };
    let transaction = client.begin();
    let refused = objects.publish_within(&transaction, &second, settings).await;
    assert_eq!(refused, Err(ObjectError::PreconditionFailed));

    // A read that the transaction depends on: the object is replaced before the commit.
    let transaction = client.begin();
    objects.find_within(&transaction, BUCKET.to_owned(), b"one".to_vec()).await.unwrap();
    transaction.insert(index, "read", b"first").unwrap();
    let third = objects.put(BUCKET.to_owned(), b"one".to_vec()).await.unwrap();
    third.publish(PutSettings::default()).await.unwrap();
    assert!(transaction.commit().await.unwrap_err().is_conflict());
    assert_eq!(cluster.value("read").await, None);

    assert_eq!(cluster.check()["unused_bodies"], 2, "{}", cluster.check());
    cluster.sweep_later(20).await;
    cluster.sweep_later(40).await;
    let report = cluster.check();
    assert_eq!((&report["objects"], &report["unused_bodies"]), (&1.into(), &0.into()), "{report}");
}

#[tokio::test]
async fn body_of_a_transaction_that_is_open_for_too_long_does_not_become_an_object() {
    let folder = folder();
    let cluster = ObjectCluster::start(folder.path()).await;
    let ObjectCluster { client, objects, index, .. } = &cluster;
    let body = cluster.write("late", b"late").await;
    let transaction = client.begin();
    objects.publish_within(&transaction, &body, PutSettings::default()).await.unwrap();
    transaction.insert(index, "late", b"1").unwrap();
    cluster.sweep_later(10).await;
    let error = transaction.commit().await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    let again = objects.publish_within(&client.begin(), &body, PutSettings::default()).await;
    assert_eq!(again, Err(ObjectError::BodyExpired));
    assert_eq!(
        (cluster.bytes("late").await, cluster.value("late").await),
        (Err(ObjectError::NoSuchObject), None)
    );
    assert_eq!(cluster.check()["bodies"], 0);
}
