//! A gateway of a simulated cluster: it draws operations, and drives the procedures of objects over [`ClusterStore`].

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zerohop_base::random::Random;
use zerohop_client::ClusterHandle;
use zerohop_layer_driver::{Environment, RecordStore};
use zerohop_object_client::ClusterStore;
use zerohop_objects::{
    BodyId, BodyWriter, Conditions, CopyObject, DeleteBucket, DeleteObject, ETagMatch, Lifetimes, ListEntry,
    ListRequest, ObjectError, ObjectLocation, ObjectRecord, PutObject, SetId, Store, Sweep, Versioning,
    WHOLE_OBJECT, copy_object, create_bucket, delete_object, get_object, list_objects, put_object, run,
    set_versioning, stage_body,
};
use zerohop_sim::programs::{HASHED_KEYSPACE, ORDERED_KEYSPACE, ProgramClient};

use crate::history::{SharedHistory, TOKEN, contents_of, etag};
use crate::pausing_store::PausingStore;
use crate::register::{Action, Requires};

/// Requests of a dead gateway arrive seconds later, over connections that stood still.
pub(crate) const LIFETIMES: Lifetimes = Lifetimes { pending: 2_000, skew: 10_000, grace: 4_000 };

/// The clocks of gateways differ by at most this, in milliseconds.
const SKEW_MS: u64 = 200;

/// The time of day at the beginning of a run.
const START_UNIX_MS: u64 = 1_700_000_000_000;

/// The bucket whose objects are checked as registers, the one that keeps versions, and the one that gateways remove.
pub(crate) const PLAIN: &str = "plain";
pub(crate) const VERSIONED: &str = "versioned";
pub(crate) const SHORT_LIVED: &str = "short-lived";

pub(crate) const NAMES: [&str; 5] = ["a", "a/b", "a/c", "b", "c"];

/// The clock and the random bytes of a gateway.
#[derive(Debug)]
struct SimulatedEnvironment {
    cluster: ClusterHandle,
    ahead_ms: u64,
    random: Mutex<Random>,
}

impl Environment for SimulatedEnvironment {
    fn unix_ms(&self) -> u64 {
        START_UNIX_MS + self.ahead_ms + self.cluster.now().0 / 1_000
    }

    fn random(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.random.lock().unwrap_or_else(PoisonError::into_inner).fill(&mut bytes);
        bytes
    }
}

/// A gateway in one life.
pub(crate) struct Gateway {
    pub(crate) client: ProgramClient,
    pub(crate) store: PausingStore,
    pub(crate) history: SharedHistory,
}

impl Gateway {
    /// Opens the keyspaces, as soon as they exist.
    pub(crate) async fn open(mut client: ProgramClient, history: SharedHistory) -> Option<Self> {
        let (names, bodies) = loop {
            if client.must_stop() && client.number > 0 {
                return None;
            }
            let names = client.cluster.keyspace(ORDERED_KEYSPACE).await;
            let bodies = client.cluster.keyspace(HASHED_KEYSPACE).await;
            if let (Ok(names), Ok(bodies)) = (names, bodies) {
                break (names, bodies);
            }
            client.cluster.sleep(Duration::from_millis(100)).await;
        };
        let environment = Arc::new(SimulatedEnvironment {
            cluster: client.cluster.clone(),
            ahead_ms: client.random.below(SKEW_MS),
            random: Mutex::new(client.random.fork(7)),
        });
        let store = ClusterStore::over(RecordStore::over(client.cluster.clone(), names, environment), bodies);
        let store = PausingStore { store, cluster: client.cluster.clone() };
        Some(Self { client, store, history })
    }

    pub(crate) async fn rest(&mut self, most_ms: u64) {
        let rest = Duration::from_millis(self.client.random.below(most_ms));
        self.client.cluster.sleep(rest).await;
    }

    /// Works until the run ends.
    pub(crate) async fn serve(mut self) {
        for bucket in [PLAIN, VERSIONED, SHORT_LIVED] {
            drop(run(&self.store, create_bucket(bucket.to_owned(), Vec::new())).await);
        }
        while !self.client.must_stop() {
            self.operate().await;
            self.rest(80).await;
        }
    }

    async fn operate(&mut self) {
        let target = self.draw_target();
        match self.client.random.below(40) {
            0..=7 => self.put(target).await,
            8..=13 => self.get(target).await,
            14..=16 => self.delete(target).await,
            17..=20 => self.copy(target).await,
            21..=24 => self.list().await,
            25..=33 => self.operate_upload(target).await,
            34..=36 => self.sweep().await,
            37 if self.client.random.chance(1, 2) => self.sweep().await,
            37 => {
                let versioning = [Versioning::Enabled, Versioning::Suspended];
                let versioning = versioning[self.client.random.below(2) as usize];
                drop(run(&self.store, set_versioning(VERSIONED.to_owned(), versioning)).await);
            }
            _ => self.remove_bucket().await,
        }
    }

    pub(crate) fn draw_target(&mut self) -> (String, Vec<u8>) {
        let is_removed = self.history.lock().is_removing_bucket;
        let bucket = match self.client.random.below(10) {
            // So that a put meets the removal.
            _ if is_removed && self.client.random.chance(1, 2) => SHORT_LIVED,
            0..=5 => PLAIN,
            6..=8 => VERSIONED,
            _ => SHORT_LIVED,
        };
        let names = if bucket == PLAIN { NAMES.len() } else { 2 };
        (bucket.to_owned(), NAMES[self.client.random.below(names as u64) as usize].as_bytes().to_vec())
    }

    /// New contents, with bytes that no others have.
    pub(crate) fn new_contents(&mut self) -> (u64, Vec<u8>) {
        let mut history = self.history.lock();
        let mut bytes = format!("{}/{} ", self.client.number, history.moment()).into_bytes();
        bytes.resize(bytes.len() + self.client.random.below(24) as usize, b'.');
        (history.new_contents(bytes.clone()), bytes)
    }

    pub(crate) fn attributes(token: u64) -> Vec<(String, String)> {
        vec![(TOKEN.to_owned(), token.to_string())]
    }

    /// A condition on the object that a write replaces.
    pub(crate) async fn draw_condition(&mut self, target: &(String, Vec<u8>)) -> (Requires, Conditions) {
        match self.client.random.below(6) {
            0 | 1 => {
                let conditions = Conditions { if_match: None, if_none_match: Some(ETagMatch::Any) };
                (Requires::Absence, conditions)
            }
            2 => match run(&self.store, get_object(target.0.clone(), target.1.clone())).await {
                Ok(found) => {
                    let tag = ETagMatch::OneOf(vec![found.object.etag.to_string()]);
                    let requires = Requires::Contents(contents_of(&found.object.etag));
                    (requires, Conditions { if_match: Some(tag), if_none_match: None })
                }
                Err(_) => (Requires::Nothing, Conditions::default()),
            },
            _ => (Requires::Nothing, Conditions::default()),
        }
    }

    /// The call on an object that begins now; nothing if its bucket is not checked.
    pub(crate) fn begins(&self, target: &(String, Vec<u8>), action: &Action) -> Option<usize> {
        let mut history = self.history.lock();
        (target.0 == PLAIN).then(|| history.begins(self.client.number, &target.1, action.clone()))
    }

    /// The end of a write.
    pub(crate) fn write_ends<T>(
        &self,
        target: &(String, Vec<u8>),
        call: Option<usize>,
        (action, requires): (Action, Requires),
        result: &Result<T, ObjectError>,
    ) {
        let mut history = self.history.lock();
        let ended = match result {
            Ok(_) => Some(action),
            Err(error) if requires.is_refusal(error) => Some(Action::Refused(requires)),
            Err(ObjectError::Unavailable(_)) => return,
            Err(ObjectError::Corrupt(key)) => {
                history.wrong.push(format!("the record of {key:?} is called corrupt"));
                return;
            }
            Err(_) => None,
        };
        if let Some(call) = call {
            history.ends(&target.1, call, ended);
        }
    }

    /// Writes a body. Result: whether it is complete.
    pub(crate) async fn write_body(&self, body: BodyId, bytes: &[u8], until: u64) -> bool {
        if self.store.now() > until {
            return false;
        }
        let mut writer = self.store.write_body(body);
        writer.extend(bytes.to_vec()).await.is_ok() && writer.finish().await.is_ok()
    }

    /// Between the body and the commit, some gateways rest until the sweep is about to remove the body.
    pub(crate) async fn rest_before_commit(&mut self) {
        if self.client.random.chance(1, 12) {
            let rest = LIFETIMES.pending + LIFETIMES.skew - 300;
            self.client.cluster.sleep(Duration::from_millis(rest)).await;
            self.rest(1_200).await;
        }
    }

    async fn put(&mut self, target: (String, Vec<u8>)) {
        let (contents, bytes) = self.new_contents();
        let set = SetId(self.store.random());
        let staged = run(&self.store, stage_body(target.0.clone(), set, LIFETIMES)).await;
        let Ok(until) = staged else { return };
        if !self.write_body(BodyId { set, number: WHOLE_OBJECT }, &bytes, until).await {
            return;
        }
        self.rest_before_commit().await;
        let (requires, conditions) = self.draw_condition(&target).await;
        let token = self.history.lock().new_token();
        self.history.lock().token_has(token, contents);
        let is_open = self.client.random.chance(1, 2);
        let put = PutObject {
            bucket: target.0.clone(),
            name: target.1.clone(),
            set,
            size: bytes.len() as u64,
            etag: etag(contents),
            checksum: None,
            attributes: Self::attributes(token),
            tags: Vec::new(),
            conditions,
            lifetimes: if is_open { LIFETIMES.of_open_transaction() } else { LIFETIMES },
        };
        let action = Action::Write { token, requires };
        let call = self.begins(&target, &action);
        let result = run(&self.store, put_object(put)).await;
        self.write_ends(&target, call, (action, requires), &result);
        self.count("put", &result);
    }

    pub(crate) fn count<T>(&self, kind: &'static str, result: &Result<T, ObjectError>) {
        let mut history = self.history.lock();
        match result {
            Ok(_) => history.succeeded(kind),
            Err(ObjectError::PreconditionFailed) => history.succeeded("refusal"),
            Err(_) => {}
        }
    }

    /// Looks an object up, and reads its bytes.
    pub(crate) async fn get(&mut self, target: (String, Vec<u8>)) {
        let (begin, since) = (self.history.lock().moment(), self.store.now());
        let found = run(&self.store, get_object(target.0.clone(), target.1.clone())).await;
        match found {
            Ok(found) => {
                self.found_object(&target, begin, &found.object);
                if self.client.random.chance(1, 3) {
                    self.rest(LIFETIMES.grace - 600).await;
                }
                self.read(&target, since, &found).await;
            }
            Err(ObjectError::NoSuchObject) if target.0 == PLAIN => {
                self.history.lock().found(self.client.number, &target.1, begin, Action::FindNothing);
            }
            Err(ObjectError::Corrupt(key)) => {
                self.history.lock().wrong.push(format!("the record of {key:?} is called corrupt"));
            }
            Err(_) => {}
        }
    }

    /// A lookup or a listing has found an object.
    fn found_object(&self, target: &(String, Vec<u8>), begin: u64, object: &ObjectRecord) {
        let token = object.attributes.iter().find(|(name, _)| name == TOKEN);
        let mut history = self.history.lock();
        let Some(token) = token.and_then(|(_, value)| value.parse::<u64>().ok()) else {
            history.wrong.push(format!("an object of {target:?} has no token"));
            return;
        };
        history.token_has(token, contents_of(&object.etag));
        if target.0 == PLAIN {
            history.found(self.client.number, &target.1, begin, Action::FindToken(token));
        }
    }

    /// Reads all bytes of an object that was found at `since`. They stay for the time of grace.
    pub(crate) async fn read(
        &mut self,
        target: &(String, Vec<u8>),
        since: u64,
        found: &ObjectLocation,
    ) -> bool {
        let mut bytes = Vec::new();
        for range in found.ranges(0, found.object.size) {
            match self.store.read_body(range.body, range.offset, range.length).await {
                Ok(read) => bytes.extend(read),
                Err(error) => {
                    let is_in_time = self.store.now() + 2 * SKEW_MS < since + LIFETIMES.grace;
                    let is_gone = match &error {
                        ObjectError::Refused(why) => why.contains("there is no blob"),
                        ObjectError::Unavailable(why) => why.contains("ends before"),
                        _ => false,
                    };
                    if is_in_time && is_gone {
                        let what = format!("a body of {target:?} is gone in its time of grace: {error}");
                        self.history.lock().wrong.push(what);
                    }
                    return false;
                }
            }
        }
        let mut history = self.history.lock();
        if bytes != history.bytes(contents_of(&found.object.etag)) {
            let what = format!("{target:?} has the bytes {:?}", String::from_utf8_lossy(&bytes));
            history.wrong.push(what);
        }
        history.succeeded("get");
        true
    }

    async fn delete(&mut self, target: (String, Vec<u8>)) {
        let mut version = None;
        if target.0 == VERSIONED && self.client.random.chance(2, 3) {
            let found = run(&self.store, get_object(target.0.clone(), target.1.clone())).await;
            version = found.ok().and_then(|found| Some(found.object.version?.name()));
        }
        let mut draw = [0; 8];
        self.client.random.fill(&mut draw);
        let call = self.begins(&target, &Action::Remove { existed: None });
        let result = run(
            &self.store,
            delete_object(DeleteObject {
                bucket: target.0.clone(),
                name: target.1.clone(),
                version,
                draw,
                conditions: Conditions::default(),
                lifetimes: LIFETIMES,
            }),
        )
        .await;
        let existed = result.as_ref().ok().map(|outcome| outcome.existed);
        self.write_ends(&target, call, (Action::Remove { existed }, Requires::Nothing), &result);
        self.count(if version.is_some() { "delete of a version" } else { "delete" }, &result);
    }

    async fn copy(&mut self, target: (String, Vec<u8>)) {
        let source = self.draw_target();
        let token = self.history.lock().new_token();
        let is_new = self.client.random.chance(1, 3);
        let requires = if is_new { Requires::Absence } else { Requires::Nothing };
        let mut draw = [0; 8];
        self.client.random.fill(&mut draw);
        let copy = CopyObject {
            source: source.clone(),
            source_version: None,
            target: target.clone(),
            check_source: Box::new(|_| Ok(())),
            attributes: Some(Self::attributes(token)),
            tags: None,
            draw,
            conditions: Conditions { if_match: None, if_none_match: is_new.then_some(ETagMatch::Any) },
            lifetimes: LIFETIMES,
        };
        let action = Action::Write { token, requires };
        let begin = self.history.lock().moment();
        let call = self.begins(&target, &action);
        let result = run(&self.store, copy_object(copy)).await;
        if let Ok(copied) = &result {
            let contents = contents_of(&copied.etag);
            let mut history = self.history.lock();
            history.token_has(token, contents);
            if source.0 == PLAIN {
                history.found(self.client.number, &source.1, begin, Action::FindContents(contents));
            }
        }
        self.write_ends(&target, call, (action, requires), &result);
        self.count("copy", &result);
    }

    /// Lists the whole bucket, page by page. What a page shows, and what it leaves out, is found during the page.
    async fn list(&mut self) {
        let max = 1 + self.client.random.below(3) as usize;
        let delimiter = self.client.random.chance(1, 2).then(|| b"/".to_vec());
        let mut after: Option<Vec<u8>> = None;
        for _ in 0..NAMES.len() + 1 {
            let request = ListRequest {
                bucket: PLAIN.to_owned(),
                prefix: Vec::new(),
                delimiter: delimiter.clone(),
                after: after.clone(),
                after_id: None,
                max,
            };
            let begin = self.history.lock().moment();
            let Ok(page) = run(&self.store, list_objects(request)).await else { return };
            let last = page.is_truncated.then(|| page.entries.last().map(|entry| entry.name().to_vec()));
            let end = last.clone().flatten();
            // A common prefix stands for an object, and does not say which.
            let is_named = |name: &&[u8]| delimiter.is_none() || !name.contains(&b'/');
            for name in NAMES.map(str::as_bytes).into_iter().filter(is_named) {
                let is_in_page = after.as_deref().is_none_or(|after| name > after)
                    && end.as_deref().is_none_or(|end| name <= end);
                let shown = page.entries.iter().find(|entry| entry.name() == name);
                match shown {
                    Some(ListEntry::Record(_, _, object)) => {
                        self.found_object(&(PLAIN.to_owned(), name.to_vec()), begin, object);
                    }
                    None if is_in_page => {
                        self.history.lock().found(self.client.number, name, begin, Action::FindNothing);
                    }
                    _ => {}
                }
            }
            self.history.lock().succeeded("page");
            let Some(next) = end else { return };
            after = Some(next);
        }
    }

    async fn sweep(&mut self) {
        let limit = 1 + self.client.random.below(30) as usize;
        let result = run(&self.store, Sweep::new(LIFETIMES, limit)).await;
        self.count("sweep", &result);
    }

    async fn remove_bucket(&mut self) {
        self.history.lock().is_removing_bucket = true;
        for _ in 0..2 {
            let result = run(&self.store, DeleteBucket::new(SHORT_LIVED.to_owned())).await;
            self.count("removal of a bucket", &result);
            if !matches!(result, Err(ObjectError::BucketNotEmpty)) {
                break;
            }
            for name in &NAMES[..2] {
                self.delete((SHORT_LIVED.to_owned(), name.as_bytes().to_vec())).await;
            }
        }
        self.history.lock().is_removing_bucket = false;
        self.rest(100).await;
        drop(run(&self.store, create_bucket(SHORT_LIVED.to_owned(), Vec::new())).await);
    }
}
