//! Many clients over one store, under a seed.

use std::collections::BTreeMap;

use zerohop_base::random::Random;
use zerohop_layer_log::planted::{Bug, plant};
use zerohop_layer_log::{CreateLog, bounds, create_log};
use zerohop_layer_procedure::planted as shared;

use crate::machine::ProcedureRun;
use crate::members::{Expirer, Member};
use crate::poppers::Popper;
use crate::producers::Producer;
use crate::readers::{LogReader, Searcher, Trimmer};
use crate::world::{Intent, PARTITIONS, World};

const STEPS: u64 = 5000;

type Counts = BTreeMap<&'static str, u64>;

/// What the clients did, or the violation.
fn simulate(seed: u64) -> Result<Counts, String> {
    let mut random = Random::new(seed);
    let mut world = World::default();
    world.now = 1000;
    let create = CreateLog { id: [7; 16], partitions: PARTITIONS, retention: None, retention_bytes: None };
    // The answer may be lost: a repeated creation succeeds.
    while ProcedureRun::new(create_log(create), Intent::None).run(&mut world, &mut random)?.is_err() {}
    let mut producers: Vec<Producer> = (0..6).map(Producer::new).collect();
    let mut readers: Vec<LogReader> = (0..3).map(LogReader::new).collect();
    let mut members: Vec<Member> = (0..4).map(|_| Member::new(&mut random)).collect();
    let mut poppers: Vec<Popper> = (0..6).map(Popper::new).collect();
    let mut expirer = Expirer::default();
    let (mut searcher, mut trimmer) = (Searcher::default(), Trimmer::default());
    for _ in 0..STEPS {
        world.now += random.below(3);
        match random.below(36) {
            0..=11 => producers[random.below(6) as usize].step(&mut world, &mut random)?,
            12..=15 => readers[random.below(3) as usize].step(&mut world, &mut random)?,
            16..=17 => searcher.step(&mut world, &mut random)?,
            18..=26 => members[random.below(4) as usize].step(&mut world, &mut random, true)?,
            27..=32 => poppers[random.below(6) as usize].step(&mut world, &mut random)?,
            33 => expirer.step(&mut world, &mut random)?,
            _ => trimmer.step(&mut world, &mut random)?,
        }
    }
    for producer in &mut producers {
        producer.finish(&mut world, &mut random)?;
    }
    for reader in &mut readers {
        reader.finish(&mut world, &mut random)?;
    }
    for popper in &mut poppers {
        popper.finish(&mut world, &mut random)?;
    }
    world.check_pops()?;
    finish_group(&mut world, &mut random)?;
    for partition in 0..PARTITIONS {
        let bounds = ProcedureRun::new(bounds(partition), Intent::None).run(&mut world, &mut random)?;
        let bounds = bounds.map_err(|error| error.to_string())?;
        let model = &world.partitions[partition as usize];
        let expected = (model.first, model.next(), model.size());
        if (bounds.first, bounds.next, (bounds.batches, bounds.bytes)) != expected {
            return Err(format!("the log is {expected:?} and not {bounds:?}"));
        }
    }
    Ok([
        ("appends", producers.iter().map(|one| one.acknowledged).sum()),
        ("duplicates", producers.iter().map(|one| one.duplicates).sum()),
        ("fenced", producers.iter().map(|one| one.fenced).sum()),
        ("records read", readers.iter().map(|one| one.records).sum()),
        ("gaps", readers.iter().map(|one| one.gaps).sum()),
        ("commits", members.iter().map(|one| one.commits).sum()),
        ("members refused", members.iter().map(|one| one.refused).sum()),
        ("members expired", expirer.members),
        ("records popped", poppers.iter().map(|one| one.records).sum()),
        ("pops repeated", poppers.iter().map(|one| one.repeats).sum()),
        ("searches", searcher.found),
        ("batches trimmed", trimmer.batches),
    ]
    .into_iter()
    .collect())
}

/// All members die, and one of its own reads and commits everything.
fn finish_group(world: &mut World, random: &mut Random) -> Result<(), String> {
    world.now += 10_000;
    let (mut member, mut expirer) = (Member::new(random), Expirer::default());
    for _ in 0..100_000 {
        let mut partitions = (0..PARTITIONS).zip(&world.partitions);
        if partitions.all(|(one, model)| world.groups.committed.get(&one) == Some(&model.next())) {
            return Ok(());
        }
        world.now += 1;
        expirer.step(world, random)?;
        member.step(world, random, false)?;
    }
    Err("a group does not get to the end of its log".to_owned())
}

#[test]
fn acknowledged_records_are_there_once_in_order_without_holes() {
    let mut all = Counts::new();
    for seed in 0..200 {
        match simulate(seed) {
            Ok(counts) => {
                counts.into_iter().for_each(|(kind, count)| *all.entry(kind).or_default() += count);
            }
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    }
    assert!(all.values().all(|count| *count > 100), "{all:?}");
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
        Bug::DuplicateAppended,
        Bug::SequenceGapAccepted,
        Bug::EpochNotFenced,
        Bug::TrimTakesWholeBatch,
        Bug::FirstOffsetStays,
        Bug::GapNotReported,
        Bug::TimesOutOfOrderMissed,
        Bug::OldGenerationCommits,
        Bug::GenerationStays,
        Bug::RangesOverlap,
        Bug::RepeatedPopMoves,
    ];
    for bug in bugs {
        plant(Some(bug));
        let found = (0..400).find_map(|seed| simulate(seed).err());
        plant(None);
        assert!(found.is_some(), "{bug:?} is not found");
    }
}
