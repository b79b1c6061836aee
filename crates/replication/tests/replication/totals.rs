//! Counters of a run, to check that enough has happened.

/// Counters of the events in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub operations: u64,
    pub promotions: u64,
    pub truncations: u64,
    pub states: u64,
    pub lease_expiries: u64,
    pub queued_requests: u64,
    pub admissions: u64,
    pub removals: u64,
    pub keeps: u64,
    pub readmissions: u64,
    pub restarts_of_all: u64,
    pub moves: u64,
    pub crashes: u64,
    pub audits: u64,
    pub disk_failures: u64,
    pub repaired: u64,
    pub corruption_found: u64,
    pub corruptions: u64,
}

impl Totals {
    pub fn add(&mut self, other: &Totals) {
        self.operations += other.operations;
        self.promotions += other.promotions;
        self.truncations += other.truncations;
        self.states += other.states;
        self.lease_expiries += other.lease_expiries;
        self.queued_requests += other.queued_requests;
        self.admissions += other.admissions;
        self.removals += other.removals;
        self.keeps += other.keeps;
        self.readmissions += other.readmissions;
        self.restarts_of_all += other.restarts_of_all;
        self.moves += other.moves;
        self.crashes += other.crashes;
        self.audits += other.audits;
        self.disk_failures += other.disk_failures;
        self.repaired += other.repaired;
        self.corruption_found += other.corruption_found;
        self.corruptions += other.corruptions;
    }
}
