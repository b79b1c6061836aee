//! Many clients over one store, under a seed.

use std::collections::BTreeMap;

use zerohop_base::random::Random;
use zerohop_layer_procedure::planted as shared;
use zerohop_objects::planted::{Bug, plant};
use zerohop_objects::{
    Conditions, DeleteObject, Event, Procedure, Step, Sweep, VersionName, abort_upload, delete_object,
};

use crate::actor::{Actor, LIFETIMES, SharedState};
use crate::world::{Intent, World};

const STEPS: u64 = 6000;

/// The operations that ended well, or the violation.
fn simulate(seed: u64) -> Result<BTreeMap<&'static str, u64>, String> {
    let mut random = Random::new(seed);
    let (mut world, mut shared) = (World::default(), SharedState::default());
    world.now = 1000;
    for bucket in ["one", "two"] {
        drive(&mut world, zerohop_objects::create_bucket(bucket.to_owned(), Vec::new()), &Intent::None)?;
    }
    let mut actors: Vec<Actor> = (0..6).map(|_| Actor::default()).collect();
    for _ in 0..STEPS {
        world.now += random.below(4);
        if random.chance(1, 500) {
            world.now += random.below(700);
        }
        let actor = &mut actors[random.below(6) as usize];
        if random.chance(1, 200) {
            actor.crash();
        }
        actor.step(&mut world, &mut shared, &mut random)?;
    }
    // Half of the runs end with what is running, the others with the death of all clients.
    if random.chance(1, 2) {
        for actor in &mut actors {
            while !actor.is_idle() {
                world.now += 1;
                actor.step(&mut world, &mut shared, &mut random)?;
            }
        }
    }
    sweep_all(&mut world)?;
    world.check_rest()?;
    remove_all(&mut world)?;
    Ok(shared.successes)
}

pub(crate) fn drive<P: Procedure>(
    world: &mut World,
    mut procedure: P,
    intent: &Intent,
) -> Result<(), String> {
    let mut event = Event::Start;
    loop {
        match procedure.step(world.now, event) {
            Step::Effect(effect) => event = world.perform(&effect, intent, &Default::default())?,
            Step::Done(result) => return result.map(|_| ()).map_err(|error| error.to_string()),
        }
    }
}

pub(crate) fn sweep_all(world: &mut World) -> Result<(), String> {
    for _ in 0..20 {
        world.now += 1000;
        drive(world, Sweep::new(LIFETIMES, 1000), &Intent::None)?;
    }
    Ok(())
}

/// Removes all versions and uploads: only the records of buckets stay.
pub(crate) fn remove_all(world: &mut World) -> Result<(), String> {
    let all: Vec<Vec<u8>> = world.records.keys().cloned().collect();
    for key in all {
        let fields: Vec<&[u8]> = key[1..].splitn(2, |byte| *byte == 0).collect();
        let bucket = String::from_utf8_lossy(fields[0]).into_owned();
        if key[0] == b'o' {
            let model = &world.versions[&key];
            let versions: Vec<VersionName> =
                model.versions.iter().filter(|one| one.until.is_none()).map(|one| one.links.name()).collect();
            for version in versions {
                let delete = delete_object(DeleteObject {
                    bucket: bucket.clone(),
                    name: fields[1].to_vec(),
                    version: Some(version),
                    draw: [0; 8],
                    conditions: Conditions::default(),
                    lifetimes: LIFETIMES,
                });
                drive(world, delete, &Intent::DeleteVersion(version))?;
            }
        } else if key[0] == b'u' {
            let (name, id) = zerohop_objects::keys::upload_of(&bucket, &key).ok_or("a key of no upload")?;
            drive(world, abort_upload((bucket, name), id), &Intent::None)?;
        }
    }
    sweep_all(world)?;
    match (world.blobs.keys().next(), world.records.keys().find(|key| key[0] != b'b')) {
        (None, None) => Ok(()),
        (blob, record) => Err(format!("left of nothing: {blob:?}, {record:?}")),
    }
}

#[test]
fn gets_are_whole_puts_conditions_hold_and_no_body_leaks_or_is_freed_early() {
    let mut successes: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..200 {
        match simulate(seed) {
            Ok(counts) => {
                counts.into_iter().for_each(|(kind, count)| *successes.entry(kind).or_default() += count)
            }
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    }
    let versions = ["get of a version", "delete of a version", "versions", "marker", "tags"];
    for kind in
        ["put", "get", "delete", "copy", "part", "part copy", "complete", "list"].into_iter().chain(versions)
    {
        assert!(successes.get(kind).is_some_and(|count| *count > 100), "{kind}: {successes:?}");
    }
}

#[test]
fn planted_bugs_are_found() {
    for bug in [shared::Bug::OnlyWrittenChecked, shared::Bug::NothingChecked] {
        shared::plant(Some(bug));
        let found = (0..400).find_map(|seed| simulate(seed).err());
        shared::plant(None);
        assert!(found.is_some(), "{bug:?} is not found");
    }
    let bugs = [
        Bug::ReplacedNotReleased,
        Bug::CopyNotCounted,
        Bug::NoGrace,
        Bug::GraceFromDecision,
        Bug::SweepDeletesFirst,
        Bug::PartsNotFrozen,
        Bug::UnlistedPartsStay,
        Bug::DyingSetForgotten,
        Bug::ListingSkips,
        Bug::CopiedPartsNotReleased,
        Bug::RemovalNotInterrupted,
        Bug::NullVersionStays,
        Bug::RemovedVersionNotReleased,
        Bug::PromotedVersionStays,
        Bug::BrokenListOfVersionsShown,
    ];
    for bug in bugs {
        plant(Some(bug));
        let found = (0..400).find_map(|seed| simulate(seed).err());
        plant(None);
        assert!(found.is_some(), "{bug:?} is not found");
    }
}
