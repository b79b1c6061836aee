//! Lifecycle rules beside clients: two sweeps carry them out, and a model says what may go.

use zerohop_base::random::Random;
use zerohop_layer_procedure::Procedure;
use zerohop_objects::keys;
use zerohop_objects::planted::{Bug, plant};
use zerohop_objects::{
    Conditions, Effect, Event, Expiration, FilterForm, LifecycleRule, LifecycleRules, NoncurrentExpiration,
    Record, RuleFilter, RulePlace, RuleReport, RuleSweep, Step, UploadRecord, Versioning, change_bucket,
    set_versioning,
};

use crate::actor::{Actor, LIFETIMES, SharedState};
use crate::draws::draw_bytes;
use crate::rule_model::{DAY, may_abort, may_go};
use crate::simulation::{drive, remove_all, sweep_all};
use crate::world::{Intent, World};

const STEPS: u64 = 6000;

fn draw_rule(random: &mut Random, id: usize) -> LifecycleRule {
    let filter = RuleFilter {
        form: FilterForm::And,
        prefix: [None, Some(""), Some("a"), Some("a/"), Some("b")][random.below(5) as usize]
            .map(str::to_owned),
        tags: if random.chance(1, 5) { vec![("tag".to_owned(), "value".to_owned())] } else { Vec::new() },
        larger_than: random.chance(1, 6).then_some(20),
        smaller_than: random.chance(1, 6).then_some(40),
    };
    LifecycleRule {
        id: id.to_string(),
        is_enabled: random.chance(7, 8),
        filter,
        expiration: match random.below(6) {
            0..=1 => Some(Expiration::Days(1 + random.below(3) as u32)),
            2 => Some(Expiration::Date(random.below(20) * DAY)),
            3 => Some(Expiration::Markers(random.chance(3, 4))),
            _ => None,
        },
        noncurrent: random.chance(1, 2).then(|| NoncurrentExpiration {
            days: 1 + random.below(2) as u32,
            newer: random.below(4) as u32,
        }),
        abort_days: random.chance(1, 3).then(|| 1 + random.below(3) as u32),
    }
}

/// Replaces the rules of a bucket, if it exists.
fn change_rules(world: &mut World, random: &mut Random) -> Result<(), String> {
    let bucket = ["one", "two"][random.below(2) as usize].to_owned();
    if !world.records.contains_key(&keys::bucket(&bucket)) {
        return Ok(());
    }
    let rules = (0..random.below(4) as usize).map(|id| draw_rule(random, id)).collect();
    let value = random.chance(7, 8).then(|| LifecycleRules { rules }.encode());
    drive(world, change_bucket(bucket, LifecycleRules::SETTING.to_owned(), value), &Intent::None)
}

/// A gateway that carries rules out.
#[derive(Default)]
struct RuleActor {
    running: Option<(RuleSweep, Effect)>,
    place: RulePlace,
    total: RuleReport,
    passes: u64,
}

impl RuleActor {
    fn step(&mut self, world: &mut World, random: &mut Random) -> Result<(), String> {
        let (mut sweep, event) = match self.running.take() {
            None => {
                let limit = 1 + random.below(8) as usize;
                (RuleSweep::new(LIFETIMES, self.place.clone(), limit, draw_bytes(random)), Event::Start)
            }
            Some((sweep, effect)) => {
                let event = world.perform(&effect, &Intent::Rules, &Conditions::default())?;
                (sweep, event)
            }
        };
        match sweep.step(world.now, event) {
            Step::Effect(effect) => self.running = Some((sweep, effect)),
            Step::Done(Ok(page)) => {
                self.total.add(page.report);
                self.passes += u64::from(page.next.is_none());
                self.place = page.next.unwrap_or_default();
            }
            Step::Done(Err(error)) => return Err(error.to_string()),
        }
        Ok(())
    }
}

/// What rules have removed, or the violation.
fn simulate(seed: u64) -> Result<RuleReport, String> {
    let mut random = Random::new(seed);
    let (mut world, mut shared) = (World::default(), SharedState::default());
    world.now = 1000;
    for bucket in ["one", "two"] {
        drive(&mut world, zerohop_objects::create_bucket(bucket.to_owned(), Vec::new()), &Intent::None)?;
    }
    drive(&mut world, set_versioning("two".to_owned(), Versioning::Enabled), &Intent::None)?;
    let mut actors: Vec<Actor> = (0..5).map(|_| Actor::default()).collect();
    let mut sweeps: Vec<RuleActor> = (0..2).map(|_| RuleActor::default()).collect();
    for _ in 0..STEPS {
        world.now += random.below(4);
        if random.chance(1, 120) {
            world.now += random.below(DAY);
        }
        if random.chance(1, 250) {
            change_rules(&mut world, &mut random)?;
        }
        match random.below(7) as usize {
            place @ 0..=4 => {
                if random.chance(1, 200) {
                    actors[place].crash();
                }
                actors[place].step(&mut world, &mut shared, &mut random)?;
            }
            place => {
                let sweep = &mut sweeps[place - 5];
                if random.chance(1, 200) {
                    *sweep = RuleActor { total: sweep.total, ..RuleActor::default() };
                }
                sweep.step(&mut world, &mut random)?;
            }
        }
    }
    let mut total = sweeps[0].total;
    total.add(sweeps[1].total);
    // Without clients, all that may go goes: a marker that hides an object is an object more to remove in the next pass.
    let mut last = RuleActor::default();
    while last.passes < 4 {
        last.step(&mut world, &mut random)?;
    }
    if last.total.skipped > 0 {
        return Err(format!("records are skipped: {:?}", last.total));
    }
    check_gone(&world)?;
    sweep_all(&mut world)?;
    world.check_rest()?;
    remove_all(&mut world)?;
    Ok(total)
}

/// No version and no upload is left that may go.
fn check_gone(world: &World) -> Result<(), String> {
    for (key, (_, value)) in &world.records {
        let fields: Vec<&[u8]> = key[1..].splitn(2, |byte| *byte == 0).collect();
        let bucket = String::from_utf8_lossy(fields[0]).into_owned();
        if key[0] == b'o' {
            let (rules, versions) = (world.rules_of(key)?, world.stored(key)?);
            let left =
                (0..versions.len()).find(|place| may_go(&rules, world.now, fields[1], &versions, *place));
            if let Some(place) = left {
                return Err(format!("{:?} stays in {key:?}", versions[place]));
            }
        } else if key[0] == b'u' {
            let (name, _) = keys::upload_of(&bucket, key).ok_or("a key of no upload")?;
            let upload = UploadRecord::decode(value).ok_or("an upload is corrupt")?;
            if may_abort(&world.rules_of(key)?, world.now, &name, &upload) {
                return Err(format!("the upload {key:?} stays"));
            }
        }
    }
    Ok(())
}

#[test]
fn what_expires_goes_and_all_else_stays() {
    let mut total = RuleReport::default();
    for seed in 0..80 {
        match simulate(seed) {
            Ok(report) => total.add(report),
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    }
    assert!(total.expired > 500 && total.versions > 200 && total.uploads > 100, "{total:?}");
}

#[test]
fn planted_bugs_of_rules_are_found() {
    for bug in [Bug::ReplacedObjectExpires, Bug::NewerVersionsMiscounted, Bug::NewerVersionsNotConfirmed] {
        plant(Some(bug));
        let found = (0..400).find_map(|seed| simulate(seed).err());
        plant(None);
        assert!(found.is_some(), "{bug:?} is not found");
    }
}

#[test]
fn sweep_does_nothing_for_buckets_without_rules_but_to_list_them() {
    let mut world = World::default();
    for number in 0..250 {
        let create = zerohop_objects::create_bucket(format!("bucket-{number:03}"), Vec::new());
        drive(&mut world, create, &Intent::None).expect("the bucket is created");
    }
    let mut sweep = RuleSweep::new(LIFETIMES, RulePlace::default(), 1000, [0; 8]);
    let (mut event, mut pages) = (Event::Start, 0);
    let page = loop {
        match sweep.step(world.now, event) {
            Step::Effect(effect) => {
                assert!(matches!(&effect, Effect::Scan { from, .. } if from[0] == b'b'), "{effect:?}");
                pages += 1;
                event = world
                    .perform(&effect, &Intent::None, &Conditions::default())
                    .expect("a scan violates nothing");
            }
            Step::Done(result) => break result,
        }
    };
    assert_eq!((pages, page.map(|page| (page.report, page.next))), (3, Ok((RuleReport::default(), None))));
}

#[test]
fn rules_of_a_later_program_are_left_alone_and_counted() {
    let mut world = World::default();
    let settings = vec![(LifecycleRules::SETTING.to_owned(), vec![9, 9])];
    drive(&mut world, zerohop_objects::create_bucket("one".to_owned(), settings), &Intent::None)
        .expect("a bucket");
    let mut actor = RuleActor::default();
    let mut random = Random::new(1);
    while actor.passes == 0 {
        actor.step(&mut world, &mut random).expect("the sweep ends well");
    }
    assert_eq!(actor.total, RuleReport { skipped: 1, ..RuleReport::default() });
}
