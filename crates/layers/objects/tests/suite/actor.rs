//! A client: it draws operations and carries them out step by step.

use zerohop_base::random::Random;
use zerohop_objects::keys::{self, RecordKey};
use zerohop_objects::{
    BodyId, BodyRange, CompleteUpload, Conditions, CopyObject, CopyPart, CreateUpload, DeleteBucket,
    DeleteObject, ETag, ETagMatch, Effect, Event, Lifetimes, ListPage, ListRequest, ListVersions, NamedPart,
    ObjectError, ObjectLocation, ObjectRecord, Procedure, PutObject, PutPart, SetId, Step, Sweep,
    VersionLookup, VersionName, VersionPage, WHOLE_OBJECT, abort_upload, change_tags, copy_object, copy_part,
    create_bucket, create_upload, delete_object, get_object, get_version, list_objects, put_object, put_part,
    renew_body, set_versioning, stage_body, stage_part,
};

use crate::draws::{draw_bytes, draw_conditions, draw_listing, draw_name, draw_version, draw_versioning};
use crate::versions::{check_page, check_version, check_versions};
use crate::world::{Intent, World};

pub(crate) const LIFETIMES: Lifetimes = Lifetimes { pending: 400, skew: 50, grace: 600 };

/// What an operation results in.
enum Outcome {
    Done,
    Until(u64),
    Found(ObjectLocation),
    Page(ListPage<ObjectRecord>),
    Version(VersionLookup),
    Versions(VersionPage),
}

type Machine = Box<dyn FnMut(u64, Event) -> Step<Outcome>>;

fn erase<P: Procedure + 'static>(mut procedure: P, map: impl Fn(P::Output) -> Outcome + 'static) -> Machine {
    Box::new(move |now, event| match procedure.step(now, event) {
        Step::Effect(effect) => Step::Effect(effect),
        Step::Done(result) => Step::Done(result.map(&map)),
    })
}

fn done<P: Procedure + 'static>(procedure: P) -> Machine {
    erase(procedure, |_| Outcome::Done)
}

/// What a writer does behind the body.
#[derive(Clone)]
enum Goal {
    Object,
    Part(u16),
}

enum Phase {
    /// The only or the last procedure.
    Last,
    /// A body becomes pending.
    Staging,
    /// Bytes are written; how many are.
    Writing { until: u64, written: usize },
    /// A body is renewed.
    Renewing { written: usize },
    /// A range of an object is read.
    Reading { ranges: Vec<BodyRange>, bytes: Vec<u8> },
}

/// An upload that the clients know.
#[derive(Clone)]
pub(crate) struct ModelledUpload {
    target: (String, Vec<u8>),
    id: SetId,
    parts: Vec<(u16, ETag)>,
}

struct ActiveOperation {
    key: RecordKey,
    target: (String, Vec<u8>),
    body: BodyId,
    goal: Goal,
    bytes: Vec<u8>,
    conditions: Conditions,
    intent: Intent,
    listing: Option<ListRequest>,
    is_get: bool,
    /// The version that the operation names.
    version: Option<VersionName>,
    machine: Machine,
    effect: Option<Effect>,
    phase: Phase,
    since: u64,
    since_time: u64,
}

/// What the clients share.
#[derive(Default)]
pub(crate) struct SharedState {
    pub(crate) uploads: Vec<ModelledUpload>,
    values: u64,
    /// How many operations of each kind ended well.
    pub(crate) successes: std::collections::BTreeMap<&'static str, u64>,
}

#[derive(Default)]
pub(crate) struct Actor {
    running: Option<ActiveOperation>,
}

impl Actor {
    /// Drops the operation.
    pub(crate) fn crash(&mut self) {
        self.running = None;
    }

    pub(crate) const fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    /// Does one step. The error is a violation.
    pub(crate) fn step(
        &mut self,
        world: &mut World,
        shared: &mut SharedState,
        random: &mut Random,
    ) -> Result<(), String> {
        let Some(mut running) = self.running.take() else {
            let mut running = draw(world, shared, random);
            let first = (running.machine)(world.now, Event::Start);
            return self.after(running, first, world, shared, random);
        };
        match &mut running.phase {
            Phase::Writing { until, written } => {
                if world.now > *until {
                    return Ok(());
                }
                if *written < running.bytes.len() {
                    let piece = (1 + random.below(20) as usize).min(running.bytes.len() - *written);
                    let blob = world.blobs.entry(running.body).or_default();
                    blob.extend_from_slice(&running.bytes[*written..*written + piece]);
                    *written += piece;
                    if random.chance(1, 8) {
                        let written = *written;
                        running.machine = erase(renew_body(running.body, LIFETIMES), Outcome::Until);
                        running.phase = Phase::Renewing { written };
                        let first = (running.machine)(world.now, Event::Start);
                        return self.after(running, first, world, shared, random);
                    }
                    self.running = Some(running);
                    return Ok(());
                }
                running.phase = Phase::Last;
                running.machine = commit_machine(&running);
                let first = (running.machine)(world.now, Event::Start);
                self.after(running, first, world, shared, random)
            }
            Phase::Reading { .. } if random.chance(2, 3) => {
                self.running = Some(running);
                Ok(())
            }
            Phase::Reading { ranges, bytes } => {
                let Some(range) = ranges.pop() else {
                    let bytes = std::mem::take(bytes);
                    if let Some(version) = running.version {
                        *shared.successes.entry("get of a version").or_default() += 1;
                        let model = world.versions.get(&running.key);
                        return check_version(model, version, running.since, Some(Some(&bytes)));
                    }
                    if !world.was(&running.key, running.since, |state| {
                        state.is_some_and(|(_, expected)| *expected == bytes)
                    }) {
                        return Err(format!(
                            "a get of {:?} is no put",
                            String::from_utf8_lossy(&running.key)
                        ));
                    }
                    *shared.successes.entry("get").or_default() += 1;
                    return Ok(());
                };
                let length = range.length.min(7);
                if length < range.length {
                    let rest =
                        BodyRange { offset: range.offset + length, length: range.length - length, ..range };
                    ranges.push(rest);
                }
                match world.read_body(range.body, range.offset, length) {
                    Ok(read) => {
                        bytes.extend_from_slice(read);
                        self.running = Some(running);
                        Ok(())
                    }
                    Err(_) if world.now >= running.since_time + LIFETIMES.grace => Ok(()),
                    Err(_) => Err(format!("{:?} was freed early", range.body)),
                }
            }
            _ => {
                let effect = running.effect.take().expect("a running procedure has an effect");
                let conditions = running.conditions.clone();
                let event = world.perform(&effect, &running.intent, &conditions)?;
                if event == Event::Committed && random.chance(1, 30) {
                    // The client dies after its transaction, before it knows.
                    return Ok(());
                }
                let step = (running.machine)(world.now, event);
                self.after(running, step, world, shared, random)
            }
        }
    }

    fn after(
        &mut self,
        mut running: ActiveOperation,
        step: Step<Outcome>,
        world: &World,
        shared: &mut SharedState,
        _: &mut Random,
    ) -> Result<(), String> {
        match step {
            Step::Effect(effect) => {
                running.effect = Some(effect);
                self.running = Some(running);
                Ok(())
            }
            Step::Done(Err(error)) => failed(&running, &error, world),
            Step::Done(Ok(Outcome::Until(until))) => {
                let written = if let Phase::Renewing { written } = running.phase { written } else { 0 };
                running.phase = Phase::Writing { until, written };
                self.running = Some(running);
                Ok(())
            }
            Step::Done(Ok(Outcome::Found(found) | Outcome::Version(VersionLookup::Object(found, _)))) => {
                let mut ranges = found.ranges(0, found.object.size);
                ranges.reverse();
                running.phase = Phase::Reading { ranges, bytes: Vec::new() };
                self.running = Some(running);
                Ok(())
            }
            Step::Done(Ok(Outcome::Version(VersionLookup::Marker(_)))) => {
                *shared.successes.entry("marker").or_default() += 1;
                let model = world.versions.get(&running.key);
                let version = running.version.ok_or("a get without a version finds a marker")?;
                check_version(model, version, running.since, Some(None))
            }
            Step::Done(Ok(Outcome::Versions(page))) => {
                *shared.successes.entry("versions").or_default() += 1;
                let request = running.listing.as_ref().expect("only listings result in pages");
                check_versions(request, running.version, &page, &world.versions, running.since)
            }
            Step::Done(Ok(Outcome::Page(page))) => {
                *shared.successes.entry("list").or_default() += 1;
                let request = running.listing.as_ref().expect("only listings result in pages");
                check_page(request, &page, world, running.since)
            }
            Step::Done(Ok(Outcome::Done)) => {
                succeeded(&running, shared);
                Ok(())
            }
        }
    }
}

fn succeeded(running: &ActiveOperation, shared: &mut SharedState) {
    let kind = match &running.intent {
        Intent::None => "other",
        Intent::Put(_) => "put",
        Intent::Delete => "delete",
        Intent::Rules => "rules",
        Intent::Tags => "tags",
        Intent::DeleteVersion(_) => "delete of a version",
        Intent::Copy(..) => "copy",
        Intent::Complete(..) => "complete",
        Intent::Part(_) => "part",
        Intent::PartCopy(..) => "part copy",
    };
    *shared.successes.entry(kind).or_default() += 1;
    let number = match (&running.intent, &running.goal) {
        (Intent::Part(_) | Intent::PartCopy(..), Goal::Part(number)) => *number,
        _ => return,
    };
    if let Some(upload) = shared.uploads.iter_mut().find(|upload| upload.id == running.body.set) {
        upload.parts.retain(|(one, _)| *one != number);
        upload.parts.push((number, etag(running.body.number)));
        upload.parts.sort_by_key(|(number, _)| *number);
    }
}

fn failed(running: &ActiveOperation, error: &ObjectError, world: &World) -> Result<(), String> {
    match error {
        ObjectError::Corrupt(key) => Err(format!("{key:?} is called corrupt")),
        ObjectError::Unavailable(why) => Err(why.clone()),
        ObjectError::PreconditionFailed => {
            let fails = world.was(&running.key, running.since, |state| {
                let tag = state.map(|(tag, _)| tag);
                let matches = |wanted: &ETagMatch| match wanted {
                    ETagMatch::Any => tag.is_some(),
                    ETagMatch::OneOf(tags) => tag.is_some_and(|tag| tags.contains(tag)),
                };
                running.conditions.if_match.as_ref().is_some_and(|wanted| !matches(wanted))
                    || running.conditions.if_none_match.as_ref().is_some_and(matches)
            });
            if fails { Ok(()) } else { Err("a condition fails that held all the time".to_owned()) }
        }
        ObjectError::NoSuchVersion => {
            let (key, version) = match &running.intent {
                Intent::Copy(source, version) => (source, *version),
                _ => (&running.key, running.version),
            };
            let version = version.ok_or("a version is missed that no client asked for")?;
            check_version(world.versions.get(key), version, running.since, None)
        }
        ObjectError::NoSuchObject if running.is_get => {
            if world.was(&running.key, running.since, |state| state.is_none()) {
                return Ok(());
            }
            Err("a get does not find an object that was there all the time".to_owned())
        }
        _ => Ok(()),
    }
}

fn etag(number: u64) -> ETag {
    let mut md5 = [0; 16];
    md5[..8].copy_from_slice(&number.to_be_bytes());
    ETag { md5, parts: 0 }
}

fn commit_machine(running: &ActiveOperation) -> Machine {
    let size = running.bytes.len() as u64;
    match running.goal {
        Goal::Object => done(put_object(PutObject {
            bucket: running.target.0.clone(),
            name: running.target.1.clone(),
            set: running.body.set,
            size,
            etag: etag(u64::from_be_bytes(*running.body.set.0.first_chunk().expect("an id has 16 bytes"))),
            checksum: None,
            attributes: Vec::new(),
            tags: Vec::new(),
            conditions: running.conditions.clone(),
            lifetimes: if size.is_multiple_of(2) { LIFETIMES } else { LIFETIMES.of_open_transaction() },
        })),
        Goal::Part(number) => done(put_part(PutPart {
            target: running.target.clone(),
            body: running.body,
            number,
            size,
            etag: etag(running.body.number),
            checksum: None,
            lifetimes: LIFETIMES,
        })),
    }
}

fn new_value(shared: &mut SharedState, random: &mut Random) -> (SetId, Vec<u8>) {
    shared.values += 1;
    let mut id = [0; 16];
    random.fill(&mut id);
    id[..8].copy_from_slice(&(shared.values + 1).to_be_bytes());
    let size = random.below(60) as usize;
    (SetId(id), (0..size).map(|_| random.below(256) as u8).collect())
}

fn draw(world: &World, shared: &mut SharedState, random: &mut Random) -> ActiveOperation {
    let target = draw_name(random);
    let (set, bytes) = new_value(shared, random);
    let mut running = ActiveOperation {
        key: keys::object(&target.0, &target.1),
        body: BodyId { set, number: WHOLE_OBJECT },
        goal: Goal::Object,
        bytes,
        conditions: Conditions::default(),
        intent: Intent::None,
        listing: None,
        is_get: false,
        version: None,
        machine: Box::new(|_, _| Step::Done(Ok(Outcome::Done))),
        effect: None,
        phase: Phase::Last,
        since: world.moment,
        since_time: world.now,
        target,
    };
    let (bucket, name) = running.target.clone();
    let upload = (!shared.uploads.is_empty())
        .then(|| shared.uploads[random.below(shared.uploads.len() as u64) as usize].clone());
    match (random.below(35), upload) {
        (0..=4, _) => {
            running.conditions = draw_conditions(world, &running.key, random);
            running.intent = Intent::Put(running.bytes.clone());
            running.phase = Phase::Staging;
            running.machine = erase(stage_body(bucket, set, LIFETIMES), Outcome::Until);
        }
        (5..=7, _) => {
            running.is_get = true;
            running.machine = erase(get_object(bucket, name), Outcome::Found);
        }
        (8, _) => {
            running.intent = Intent::Delete;
            running.conditions = draw_conditions(world, &running.key, random);
            running.conditions.if_none_match = None;
            running.machine = done(delete_object(DeleteObject {
                bucket,
                name,
                version: None,
                draw: draw_bytes(random),
                conditions: running.conditions.clone(),
                lifetimes: LIFETIMES,
            }));
        }
        (9..=10, _) => {
            let source = draw_name(random);
            running.conditions = draw_conditions(world, &running.key, random);
            let source_key = keys::object(&source.0, &source.1);
            let source_version = draw_version(world, &source_key, random).filter(|_| random.chance(1, 2));
            running.intent = Intent::Copy(source_key, source_version);
            running.machine = done(copy_object(CopyObject {
                source,
                source_version,
                draw: draw_bytes(random),
                target: running.target.clone(),
                check_source: Box::new(|_| Ok(())),
                attributes: None,
                tags: None,
                conditions: running.conditions.clone(),
                lifetimes: LIFETIMES,
            }));
        }
        (11, _) => {
            let target = running.target.clone();
            shared.uploads.push(ModelledUpload { target: target.clone(), id: set, parts: Vec::new() });
            running.machine = done(create_upload(CreateUpload {
                target,
                id: set,
                checksum_algorithm: 0,
                is_composite: false,
                attributes: Vec::new(),
                tags: Vec::new(),
            }));
        }
        (12..=15, Some(upload)) => {
            let number = 1 + random.below(3) as u16;
            running.target.clone_from(&upload.target);
            running.body = BodyId { set: upload.id, number: shared.values + 1 };
            running.goal = Goal::Part(number);
            running.intent = Intent::Part(running.bytes.clone());
            running.phase = Phase::Staging;
            let stage = stage_part(upload.target, running.body, LIFETIMES);
            running.machine = erase(stage, |(_, until)| Outcome::Until(until));
        }
        (16..=17, Some(upload)) => copy_range(&mut running, upload, world, shared, random),
        (18..=19, Some(upload)) => complete(&mut running, upload, world, random),
        (20, Some(upload)) if random.chance(1, 2) => {
            running.machine = done(abort_upload(upload.target, upload.id));
        }
        (21, _) => {
            running.machine = match random.below(4) {
                0 => done(DeleteBucket::new(bucket)),
                _ => done(create_bucket(bucket, Vec::new())),
            };
        }
        (27..=29, _) => {
            running.version = draw_version(world, &running.key, random);
            running.machine = match running.version {
                Some(_) => erase(get_version(bucket, name, running.version), Outcome::Version),
                None => done(set_versioning("two".to_owned(), draw_versioning(random))),
            };
        }
        (30..=31, _) => match draw_version(world, &running.key, random) {
            Some(version) => {
                running.intent = Intent::DeleteVersion(version);
                running.machine = done(delete_object(DeleteObject {
                    bucket,
                    name,
                    version: Some(version),
                    draw: [0; 8],
                    conditions: Conditions::default(),
                    lifetimes: LIFETIMES,
                }));
            }
            None => running.machine = done(create_bucket(bucket, Vec::new())),
        },
        (32, _) if random.chance(1, 2) => {
            running.version = draw_version(world, &running.key, random);
            running.intent = Intent::Tags;
            let tags = vec![("tag".to_owned(), "value".to_owned())];
            running.machine = done(change_tags(bucket, name, running.version, tags));
        }
        (32, _) => running.machine = done(set_versioning("two".to_owned(), draw_versioning(random))),
        (33..=34, _) => {
            let request = draw_listing(bucket, random);
            let after = request.after.as_ref().map(|after| keys::object(&request.bucket, after));
            running.version = after.and_then(|after| draw_version(world, &after, random));
            running.listing = Some(request.clone());
            running.machine = erase(ListVersions::new(request, running.version), Outcome::Versions);
        }
        (22..=25, _) => running.machine = done(Sweep::new(LIFETIMES, 1 + random.below(10) as usize)),
        _ => {
            let request = draw_listing(bucket, random);
            running.listing = Some(request.clone());
            running.machine = erase(list_objects(request), Outcome::Page);
        }
    }
    running
}

fn copy_range(
    running: &mut ActiveOperation,
    upload: ModelledUpload,
    world: &World,
    shared: &SharedState,
    random: &mut Random,
) {
    let source = draw_name(random);
    let source_key = keys::object(&source.0, &source.1);
    let size = world.current(&source_key).map_or(0, |(_, bytes)| bytes.len() as u64);
    let from = random.below(size + 1);
    let length = random.below(size - from + 1);
    let number = 1 + random.below(3) as u16;
    let value = shared.values + 1;
    running.goal = Goal::Part(number);
    running.body = BodyId { set: upload.id, number: value };
    running.intent = Intent::PartCopy(source_key, from as usize, (from + length) as usize);
    running.machine = done(copy_part(CopyPart {
        source,
        source_version: None,
        range: Some((from, length)),
        check_source: Box::new(|_| Ok(())),
        describe: Box::new(move |_, _, _| (etag(value), None)),
        target: upload.target,
        upload: upload.id,
        number,
        lifetimes: LIFETIMES,
    }));
}

fn complete(running: &mut ActiveOperation, upload: ModelledUpload, world: &World, random: &mut Random) {
    let mut parts = upload.parts;
    if parts.len() > 1 && random.chance(1, 3) {
        parts.remove(random.below(parts.len() as u64) as usize);
    }
    running.target.clone_from(&upload.target);
    running.key = keys::object(&upload.target.0, &upload.target.1);
    running.conditions = draw_conditions(world, &running.key, random);
    running.intent = Intent::Complete(upload.id, parts.iter().map(|(number, _)| *number).collect());
    let named = parts.iter().map(|(number, tag)| NamedPart {
        number: *number,
        etag: Some(tag.to_string()),
        checksum: None,
    });
    running.machine = done(
        CompleteUpload {
            target: upload.target,
            id: upload.id,
            parts: named.collect(),
            part_size_min: 0,
            assemble: Box::new(|_, parts| {
                let md5 = parts.last().map_or([0; 16], |part| part.etag.md5);
                Ok((ETag { md5, parts: parts.len() as u16 }, None))
            }),
            conditions: running.conditions.clone(),
            lifetimes: LIFETIMES,
        }
        .start(),
    );
}
