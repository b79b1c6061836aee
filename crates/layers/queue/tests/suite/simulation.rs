//! Many clients over one store, under a seed.

use std::collections::BTreeMap;

use zerohop_base::random::Random;
use zerohop_layer_procedure::planted as shared;
use zerohop_layer_queue::planted::{Bug, plant};
use zerohop_layer_queue::{CreateQueue, ProducerId, ReadStatistics, Sweep, create_queue};

use crate::clients::{Consumer, Keeper, Producer};
use crate::machine::ProcedureRun;
use crate::model::{NAMES, TRIES};
use crate::world::{Intent, PARTITION, QueueWorld};

const STEPS: u64 = 3000;

type Counts = BTreeMap<&'static str, u64>;

/// What the clients did, or the violation.
fn simulate(seed: u64) -> Result<Counts, String> {
    let mut random = Random::new(seed);
    let mut world = QueueWorld::default();
    world.now = 1000;
    let create = CreateQueue { id: [7; 16], partitions: 2, lease: 100, tries: TRIES, names: NAMES };
    // The answer may be lost: a repeated creation succeeds.
    while ProcedureRun::new(0, create_queue(create), Intent::None).run(&mut world, &mut random)?.is_err() {}
    let mut producers: Vec<Producer> = (0..3).map(Producer::new).collect();
    let mut consumers: Vec<Consumer> = (0..4).map(Consumer::new).collect();
    let mut keeper = Keeper::default();
    for _ in 0..STEPS {
        world.now += random.below(3);
        match random.below(20) {
            0..=2 => producers[random.below(3) as usize].step(&mut world, &mut random)?,
            3..=17 => consumers[random.below(4) as usize].step(&mut world, &mut random)?,
            _ => keeper.step(&mut world, &mut random)?,
        }
    }
    for producer in &mut producers {
        producer.finish(&mut world, &mut random)?;
    }
    for consumer in &mut consumers {
        consumer.finish(&mut world, &mut random)?;
    }
    let mut last = Consumer::new(9);
    last.drain(&mut world, &mut random)?;
    world.now += NAMES;
    while ProcedureRun::new(0, Sweep::new(PARTITION), Intent::Sweep).run(&mut world, &mut random)?.is_err() {}
    let ids: Vec<ProducerId> = producers.iter().map(|one| one.id).collect();
    world.check_end(&ids)?;
    let statistics =
        ProcedureRun::new(0, ReadStatistics::new(PARTITION), Intent::None).run(&mut world, &mut random)?;
    if let Ok(statistics) = statistics
        && (statistics.depth, statistics.leased, statistics.delayed, statistics.oldest) != (0, 0, 0, None)
    {
        return Err(format!("{statistics:?} are those of no message"));
    }
    let sum = |of: fn(&Consumer) -> u64| consumers.iter().map(of).sum::<u64>();
    Ok([
        ("messages pushed", producers.iter().map(|one| one.pushed).sum()),
        ("messages of names", producers.iter().map(|one| one.duplicates).sum()),
        ("pushes repeated", producers.iter().map(|one| one.repeats).sum()),
        ("messages popped", sum(|one| one.popped)),
        ("messages acknowledged", sum(|one| one.finished)),
        ("leases lapsed", sum(|one| one.lapsed)),
        ("leases extended", sum(|one| one.extended)),
        ("pops repeated", sum(|one| one.repeats)),
        ("names swept", keeper.swept),
        ("dead letters pushed again", keeper.redriven),
        ("dead letters removed", keeper.purged),
    ]
    .into_iter()
    .collect())
}

#[test]
fn each_message_is_processed_once_in_the_order_of_its_group() {
    let mut all = Counts::new();
    for seed in 0..60 {
        match simulate(seed) {
            Ok(counts) => {
                counts.into_iter().for_each(|(kind, count)| *all.entry(kind).or_default() += count);
            }
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    }
    assert!(all.values().all(|count| *count > 50), "{all:?}");
}

#[test]
fn planted_bugs_are_found() {
    shared::plant(Some(shared::Bug::NothingChecked));
    let found = (0..100).find_map(|seed| simulate(seed).err());
    shared::plant(None);
    assert!(found.is_some(), "unchecked commits are not found");
    let bugs = [
        Bug::LeasedEntryStays,
        Bug::RepeatedPopTakesMore,
        Bug::RepeatedPushCounts,
        Bug::SettledLeaseStays,
        Bug::LapsedLeaseAcknowledged,
        Bug::NameNotChecked,
        Bug::NameSweptEarly,
        Bug::GroupOrderIgnored,
        Bug::GroupStops,
        Bug::TriesForgotten,
        Bug::DeadLetterLeased,
        Bug::DelayIgnored,
        Bug::MessageBytesStay,
        Bug::OldEntryStays,
    ];
    for bug in bugs {
        plant(Some(bug));
        let found = (0..100).find_map(|seed| simulate(seed).err());
        plant(None);
        assert!(found.is_some(), "{bug:?} is not found");
    }
}
