//! Transactions are hunted: those who decide one die just then, what is said of one comes again long after it was said, and
//! somebody hears of a decision only once its session is forgotten. By chance it would befall one of thousands.

use zerohop_session::Time;

use super::commits::Said;
use super::faults::Fault;
use super::kinds::Kind;
use super::{Cluster, Event, Phase};

const MS: u64 = 1_000;
const SECOND: u64 = 1_000_000;

/// Of so many that ask others to prepare, or tell a decision, one dies within so long, and then none for so long.
const DECIDERS_OF: u64 = 40;
const DIES_WITHIN_US: u64 = 30 * MS;
const REST_US: u64 = 4 * SECOND;

/// Of so many words of transactions, where messages are repeated at all, one comes again so much later, at most.
const WORDS_OF: u64 = 25;
const AGAIN_US: u64 = 2 * SECOND;

/// That something is over is said seldom: it comes again so often, within so long.
const DROPS_AGAIN: u64 = 3;
const DROPS_AGAIN_US: u64 = 800 * MS;

/// A decision of which somebody is to hear only after a sleep falls so long before it, and is heard so long before its end.
const BEFORE_SLEEP_US: u64 = 2 * SECOND;
const BEFORE_WAKING_US: u64 = 5 * SECOND;

impl Cluster {
    /// One instance is about to say something of a transaction to one on another node; `make` says that alone again.
    pub(super) fn hunt(
        &mut self,
        now: Time,
        (from, to): (usize, usize),
        said: Said,
        make: &dyn Fn() -> Event,
    ) {
        if self.phase != Phase::Faults {
            return;
        }
        if let Some((sleep, until)) = self.scenario.sleep
            && said == Said::Commit
            && now < sleep
            && now.after_us(BEFORE_SLEEP_US) >= sleep
            && self.scenario.has(Kind::OneWayCuts)
        {
            let until = Time(until.0.saturating_sub(BEFORE_WAKING_US));
            self.trace.say(now, format_args!("CUT of n{from} to n{to} until {}", until.0));
            self.peers.cut(from, to, until);
        }
        if self.scenario.has(Kind::Repeats) {
            let is_again = self.streams.network.chance(1, WORDS_OF);
            let (count, within_us) = match said {
                Said::Drop => (DROPS_AGAIN, DROPS_AGAIN_US),
                _ => (u64::from(is_again), AGAIN_US),
            };
            for _ in 0..count {
                let at = now.after_us(self.streams.network.below(within_us));
                self.agenda.at(at, make());
            }
        }
        let is_decider = matches!(said, Said::Prepare | Said::Commit);
        let may_die =
            is_decider && now >= self.hunt_again && self.scenario.has(Kind::Kills) && self.is_stormy(now);
        if may_die && self.streams.node.chance(1, DECIDERS_OF) {
            self.hunt_again = now.after_us(REST_US);
            let (at, life) = (now.after_us(self.streams.node.below(DIES_WITHIN_US)), self.hosts[from].life);
            self.agenda.at(at, Event::Fault(Fault::Kill { host: from, life }));
        }
    }
}
