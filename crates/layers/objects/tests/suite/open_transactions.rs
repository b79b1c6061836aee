//! Decisions in transactions that stay open: sweeps and other writers come between the decision and the commit.

use zerohop_layer_procedure::{Attempt, AttemptStep, Decide};
use zerohop_objects::{
    BodyId, Conditions, ETag, Effect, Event, ObjectError, ObjectRecord, Procedure, PutObject, SetId, Step,
    Sweep, WHOLE_OBJECT, create_bucket, get_object, put_decision, stage_body,
};

use crate::actor::LIFETIMES;
use crate::world::{Intent, World};

const BUCKET: &str = "papers";
const NAME: &[u8] = b"one";

fn drive<P: Procedure>(world: &mut World, mut procedure: P) -> Result<P::Output, ObjectError> {
    let mut event = Event::Start;
    loop {
        match procedure.step(world.now, event) {
            Step::Effect(effect) => event = perform(world, &effect, &Intent::None),
            Step::Done(result) => return result,
        }
    }
}

fn perform(world: &mut World, effect: &Effect, intent: &Intent) -> Event {
    world.perform(effect, intent, &Conditions::default()).expect("nothing is violated")
}

fn world() -> World {
    let mut world = World::default();
    world.now = 1000;
    drive(&mut world, create_bucket(BUCKET.to_owned(), Vec::new())).expect("a bucket");
    world
}

/// What a decision makes of the records now; its transaction is open.
fn decide<D: Decide<ObjectError>>(
    world: &mut World,
    decision: D,
) -> Result<(D::Output, Effect), ObjectError> {
    let mut attempt = Attempt::new(decision);
    loop {
        match attempt.advance(world.now) {
            AttemptStep::Read(keys) => {
                let Event::Values(values) = perform(world, &Effect::Read(keys), &Intent::None) else {
                    panic!("a read has values")
                };
                assert!(attempt.supply(values));
            }
            AttemptStep::Decided(output, writes) => {
                let conditions = attempt.conditions().collect();
                let (writes, additions) = writes.into_parts();
                return output.map(|output| (output, Effect::Transact { conditions, writes, additions }));
            }
        }
    }
}

/// Writes a body. Result: its put.
fn written(world: &mut World, number: u8, bytes: &[u8]) -> PutObject {
    let set = SetId([number; 16]);
    drive(world, stage_body(BUCKET.to_owned(), set, LIFETIMES)).expect("a body");
    world.blobs.insert(body(number), bytes.to_vec());
    PutObject {
        bucket: BUCKET.to_owned(),
        name: NAME.to_vec(),
        set,
        size: bytes.len() as u64,
        etag: ETag { md5: [number; 16], parts: 0 },
        checksum: None,
        attributes: Vec::new(),
        tags: Vec::new(),
        conditions: Conditions::default(),
        lifetimes: LIFETIMES.of_open_transaction(),
    }
}

fn body(number: u8) -> BodyId {
    BodyId { set: SetId([number; 16]), number: WHOLE_OBJECT }
}

fn open_put(world: &mut World, put: PutObject) -> Result<(ObjectRecord, Effect), ObjectError> {
    decide(world, put_decision(put)).map(|(written, effect)| (written.object, effect))
}

fn commit(world: &mut World, transaction: &Effect, bytes: &[u8]) -> Event {
    perform(world, transaction, &Intent::Put(bytes.to_vec()))
}

fn sweep(world: &mut World) {
    drive(world, Sweep::new(LIFETIMES, 1000)).expect("a sweep");
}

#[test]
fn readers_of_a_replaced_object_have_their_time_behind_a_late_commit() {
    let mut world = world();
    let old = written(&mut world, 1, b"old");
    let (_, transaction) = open_put(&mut world, old).unwrap();
    assert_eq!(commit(&mut world, &transaction, b"old"), Event::Committed);
    let new = written(&mut world, 2, b"newer");
    let (_, transaction) = open_put(&mut world, new).unwrap();
    world.now += 10 * LIFETIMES.grace;
    let found = drive(&mut world, get_object(BUCKET.to_owned(), NAME.to_vec())).unwrap();
    assert_eq!(found.object.size, 3);
    assert_eq!(commit(&mut world, &transaction, b"newer"), Event::Committed);
    for passed in [0, LIFETIMES.grace - 1] {
        world.now += passed;
        sweep(&mut world);
        sweep(&mut world);
        assert_eq!(world.read_body(body(1), 0, 3).unwrap(), b"old");
    }
    world.now += 1;
    sweep(&mut world);
    assert!(world.read_body(body(1), 0, 3).is_err(), "nothing names the body any more");
    assert_eq!(world.read_body(body(2), 0, 5).unwrap(), b"newer");
    world.now += LIFETIMES.grace;
    sweep(&mut world);
    world.check_rest().unwrap();
}

#[test]
fn body_of_a_transaction_that_is_open_for_too_long_is_never_an_object() {
    let mut world = world();
    let put = written(&mut world, 1, b"late");
    let (_, transaction) = open_put(&mut world, put.clone()).unwrap();
    world.now += LIFETIMES.pending + LIFETIMES.skew;
    sweep(&mut world);
    assert!(world.read_body(body(1), 0, 4).is_err());
    assert_eq!(commit(&mut world, &transaction, b"late"), Event::Conflict);
    assert_eq!(open_put(&mut world, put).map(drop), Err(ObjectError::BodyExpired));
    let found = drive(&mut world, get_object(BUCKET.to_owned(), NAME.to_vec()));
    assert_eq!(found.map(drop), Err(ObjectError::NoSuchObject));
    world.check_rest().unwrap();
}

#[test]
fn one_of_two_open_puts_commits_and_the_other_body_is_swept() {
    let mut world = world();
    let (first, second) = (written(&mut world, 1, b"first"), written(&mut world, 2, b"second"));
    let (_, first) = open_put(&mut world, first).unwrap();
    let (_, refused) = open_put(&mut world, second).unwrap();
    assert_eq!(commit(&mut world, &first, b"first"), Event::Committed);
    assert_eq!(commit(&mut world, &refused, b"second"), Event::Conflict);
    world.now += LIFETIMES.pending + LIFETIMES.skew;
    sweep(&mut world);
    assert!(world.read_body(body(2), 0, 6).is_err());
    assert_eq!(world.read_body(body(1), 0, 5).unwrap(), b"first");
    world.check_rest().unwrap();
}
