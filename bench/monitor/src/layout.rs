//! The monitored system: sources on machines, in clusters, sites and regions. Each event is
//! appended to its source's, and added to the aggregates above it. The layout is that of MonALISA
//! in the Týr thesis (section 9.1.2).
//!
//! An aggregate is one number of eight bytes, so that every contender keeps an average by one
//! addition: the lower 40 bits are the sum of the measured values, the others the number of events.

use bench_common::failure::Failure;
use bench_common::workload::Draws;

/// The number of sources, each with its own events.
pub(crate) const SOURCES: u32 = 1024;

/// Sources below one aggregate of each level, from machines to global.
const BELOW: [u32; 5] = [4, 16, 64, 256, SOURCES];

/// The names of the levels.
const LEVELS: [&str; 5] = ["machine", "cluster", "site", "region", "global"];

/// Bytes of an event: the time, and the measured value.
pub(crate) const EVENT_BYTES: usize = 16;

/// Bits of the sum in an aggregate.
const SUM_BITS: u32 = 40;

/// The bound of a measured value: the sum has room for 2^24 of them, which are all that can be
/// counted.
const MEASURED: u64 = 1 << 16;

/// The aggregates of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Those of all levels.
    AllLevels,
    /// Only the global one.
    Global,
}

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) source: u32,
    measured: u64,
    time: u64,
}

impl Event {
    /// An event of a uniformly drawn source.
    pub(crate) fn draw(draws: &mut Draws) -> Event {
        let drawn = draws.draw();
        Event { source: (drawn % u64::from(SOURCES)) as u32, measured: drawn >> 48, time: draws.draw() }
    }

    /// The same, of this source.
    pub(crate) fn of(self, source: u32) -> Event {
        Event { source, ..self }
    }

    /// The appended bytes.
    pub(crate) fn bytes(&self) -> [u8; EVENT_BYTES] {
        let mut bytes = [0; EVENT_BYTES];
        bytes[..8].copy_from_slice(&self.time.to_le_bytes());
        bytes[8..].copy_from_slice(&self.measured.to_le_bytes());
        bytes
    }

    /// The number that it adds to an aggregate.
    pub(crate) fn adds(&self) -> u64 {
        (1 << SUM_BITS) | (self.measured % MEASURED)
    }

    /// The aggregates that it is added to, from its machine's up. The order is the same for all
    /// events, so that locks acquired in it cannot deadlock, and the most contended one is held for
    /// the shortest time.
    pub(crate) fn aggregates(&self, scope: Scope) -> impl Iterator<Item = usize> + use<> {
        let (source, mut first) = (self.source, 0);
        let levels = BELOW.iter().map(move |below| {
            let found = first + source / below;
            first += SOURCES / below;
            found as usize
        });
        levels.skip(if scope == Scope::Global { BELOW.len() - 1 } else { 0 })
    }
}

/// The number of aggregates.
pub(crate) fn aggregates() -> usize {
    BELOW.iter().map(|below| (SOURCES / below) as usize).sum()
}

/// The name of an aggregate.
pub(crate) fn aggregate_name(aggregate: usize) -> String {
    let mut number = aggregate;
    for (level, below) in LEVELS.iter().zip(BELOW) {
        let count = (SOURCES / below) as usize;
        if number < count {
            return format!("{level}-{number}");
        }
        number -= count;
    }
    unreachable!("there are {} aggregates, and no {aggregate}", aggregates())
}

/// The name of a source's events.
pub(crate) fn source_name(source: u32) -> String {
    format!("source-{source}")
}

/// A number below `count`, drawn by a Zipf distribution; low numbers are the most frequent.
pub(crate) fn popular(count: usize, draws: &mut Draws) -> usize {
    let part = draws.draw() as f64 / u64::MAX as f64;
    ((count as f64 + 1.0).powf(part) as usize).clamp(1, count) - 1
}

/// The acknowledged events and sums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AcknowledgedTotals {
    aggregates: Vec<u64>,
    events: Vec<u64>,
}

impl Default for AcknowledgedTotals {
    fn default() -> Self {
        AcknowledgedTotals { aggregates: vec![0; aggregates()], events: vec![0; SOURCES as usize] }
    }
}

impl AcknowledgedTotals {
    /// Counts an event.
    pub(crate) fn add(&mut self, event: &Event, scope: Scope) {
        event.aggregates(scope).for_each(|aggregate| self.aggregates[aggregate] += event.adds());
        self.events[event.source as usize] += 1;
    }

    /// Counts events that are only appended.
    pub(crate) fn append(&mut self, source: u32, events: u64) {
        self.events[source as usize] += events;
    }

    /// Adds the counts of another.
    pub(crate) fn merge(&mut self, other: &AcknowledgedTotals) {
        self.aggregates.iter_mut().zip(&other.aggregates).for_each(|(own, more)| *own += more);
        self.events.iter_mut().zip(&other.events).for_each(|(own, more)| *own += more);
    }

    /// Compares them with a store: each aggregate, and the number of events of each source.
    pub(crate) fn check(&self, aggregates: &[u64], events: &[u64]) -> Result<(), Failure> {
        let wrong = |what: String| Err(Failure::Protocol(what));
        let differs = |own: &[u64], found: &[u64]| (0..own.len()).find(|at| found.get(*at) != own.get(*at));
        let described = |word: Option<&u64>| {
            let word = word.copied().unwrap_or_default();
            format!("{} events of {} in all", word >> SUM_BITS, word & ((1 << SUM_BITS) - 1))
        };
        if let Some(at) = differs(&self.aggregates, aggregates) {
            let (own, found) = (described(self.aggregates.get(at)), described(aggregates.get(at)));
            return wrong(format!("that {} is {found}; acknowledged were {own}", aggregate_name(at)));
        }
        if let Some(at) = differs(&self.events, events) {
            let (own, found) = (self.events[at], events.get(at).copied().unwrap_or_default());
            return wrong(format!("that {} has {found} events of {own}", source_name(at as u32)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn aggregate_names_are_unique_and_levels_ordered() {
        let names: BTreeSet<String> = (0..aggregates()).map(aggregate_name).collect();
        assert_eq!((names.len(), aggregates()), (341, 341));
        let event = Event { source: SOURCES - 1, measured: 7, time: 0 };
        let names: Vec<String> = event.aggregates(Scope::AllLevels).map(aggregate_name).collect();
        assert_eq!(names, ["machine-255", "cluster-63", "site-15", "region-3", "global-0"]);
        assert_eq!(event.aggregates(Scope::Global).collect::<Vec<_>>(), [340]);
    }

    #[test]
    fn every_level_counts_every_event() {
        let (mut tally, mut draws) = (AcknowledgedTotals::default(), Draws::new(1));
        let events: Vec<Event> = (0..1000).map(|_| Event::draw(&mut draws)).collect();
        events.iter().for_each(|event| tally.add(event, Scope::AllLevels));
        let all: u64 = events.iter().map(Event::adds).sum();
        let mut first = 0;
        for below in BELOW {
            let count = (SOURCES / below) as usize;
            assert_eq!(tally.aggregates[first..first + count].iter().sum::<u64>(), all);
            first += count;
        }
        assert_eq!(all >> SUM_BITS, 1000);
    }

    #[test]
    fn lost_and_duplicate_events_are_found() {
        let (mut tally, mut draws) = (AcknowledgedTotals::default(), Draws::new(2));
        let events: Vec<Event> = (0..100).map(|_| Event::draw(&mut draws)).collect();
        events.iter().for_each(|event| tally.add(event, Scope::AllLevels));
        let (aggregates, counts) = (tally.aggregates.clone(), tally.events.clone());
        tally.check(&aggregates, &counts).unwrap();
        for change in [1_u64.wrapping_neg(), 1, events[0].adds()] {
            let mut wrong = aggregates.clone();
            wrong[340] = wrong[340].wrapping_add(change);
            assert!(tally.check(&wrong, &counts).is_err());
        }
        let mut wrong = counts.clone();
        wrong[events[5].source as usize] -= 1;
        assert!(tally.check(&aggregates, &wrong).is_err());
        assert!(tally.check(&aggregates[..340], &counts).is_err());
    }

    #[test]
    fn the_first_are_the_most_popular() {
        let mut draws = Draws::new(3);
        let mut counts = [0; 100];
        (0..100_000).for_each(|_| counts[popular(100, &mut draws)] += 1);
        assert!(counts[0] > 10 * counts[20] && counts[99] > 0, "{counts:?}");
    }
}
