//! The clients' transactions: over lists, registers and accounts of two keyspaces that nothing else
//! uses.
//!
//! Every value that is appended or written is a unique number. Transfers between accounts add up to
//! zero, so the sum of all accounts of a bank is zero whenever they are read together.

use zerohop_base::random::Random;

use super::blobs;
use super::plain_blobs::PlainBlobPlan;
use crate::streams::Draw;

/// Names of their keyspaces.
pub(crate) const KEYSPACES: [&str; 2] = ["transactions-0", "transactions-1"];

/// The kind of value under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KeyClass {
    /// A list that is appended to.
    List,
    /// Bytes that are replaced.
    Register,
    /// Decimal text with additions; of the first bank.
    Account,
    /// A number of eight bytes that is transformed in place; of the second bank.
    Counter,
}

/// Keys of each class in each keyspace.
const fn count(class: KeyClass) -> u64 {
    match class {
        KeyClass::List => 4,
        KeyClass::Register => 3,
        KeyClass::Account | KeyClass::Counter => 2,
    }
}

/// A key of one of the two keyspaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClassedKey {
    /// Which keyspace, by [`KEYSPACES`].
    pub(crate) keyspace: usize,
    pub(crate) class: KeyClass,
    number: u64,
}

impl ClassedKey {
    /// All keys of a class.
    pub(crate) fn all(class: KeyClass) -> Vec<ClassedKey> {
        let of = |keyspace| (0..count(class)).map(move |number| ClassedKey { keyspace, class, number });
        (0..KEYSPACES.len()).flat_map(of).collect()
    }

    /// The key with this number.
    pub(crate) fn with_id(id: u64) -> Option<ClassedKey> {
        let classes = [KeyClass::List, KeyClass::Register, KeyClass::Account, KeyClass::Counter];
        classes.into_iter().flat_map(ClassedKey::all).find(|key| key.id() == id)
    }

    /// The bytes of the key.
    pub(crate) fn bytes(self) -> Vec<u8> {
        format!("{:?}-{}", self.class, self.number).into_bytes()
    }

    /// The unique number of the key.
    pub(crate) fn id(self) -> u64 {
        (self.keyspace as u64) << 16 | (self.class as u64) << 8 | self.number
    }
}

/// One operation of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionStep {
    /// Reads the whole record.
    Read(ClassedKey),
    /// Appends a value to a list.
    Append(ClassedKey, u64),
    /// Writes a value to a register, with so many bytes of filler.
    Put { key: ClassedKey, value: u64, filler: usize },
    /// Writes it if the record is absent.
    Make { key: ClassedKey, value: u64 },
    /// Adds to an account or a counter.
    Add(ClassedKey, i64),
}

impl TransactionStep {
    pub(crate) fn key(self) -> ClassedKey {
        match self {
            TransactionStep::Read(key) | TransactionStep::Append(key, _) | TransactionStep::Add(key, _) => {
                key
            }
            TransactionStep::Put { key, .. } | TransactionStep::Make { key, .. } => key,
        }
    }

    pub(crate) fn is_read(self) -> bool {
        matches!(self, TransactionStep::Read(_))
    }
}

/// An action of a client with several operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClientOperationPlan {
    /// One transaction without read dependencies.
    Commit(Vec<TransactionStep>),
    /// Reads first, in sequence or together, and then a transaction that depends on these reads.
    /// Without writes it is a read-only interactive transaction.
    ReadFirst { reads: Vec<ClassedKey>, together: bool, writes: Vec<TransactionStep> },
    /// One consistent read of several records.
    ReadMany(Vec<ClassedKey>),
    /// A single operation.
    Single(TransactionStep),
}

/// Draws the actions of clients.
#[derive(Debug)]
pub(crate) struct PlanDraws {
    random: Random,
    /// The last value that was drawn.
    values: u64,
    has_large_values: bool,
    /// Most truncations of the plain blob are in steps.
    has_truncations_in_steps: bool,
}

/// From this length on an operation is staged separately.
const STAGED_BYTES: usize = 65 << 10;

impl PlanDraws {
    pub(crate) fn new(random: Random, has_large_values: bool, has_truncations_in_steps: bool) -> PlanDraws {
        PlanDraws { random, values: 0, has_large_values, has_truncations_in_steps }
    }

    pub(crate) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// The transaction that creates everything that others require.
    pub(crate) fn opening(&mut self) -> ClientOperationPlan {
        let mut steps = Vec::new();
        for class in [KeyClass::Register, KeyClass::Account, KeyClass::Counter] {
            for key in ClassedKey::all(class) {
                let value = if class == KeyClass::Register { self.value() } else { 0 };
                steps.push(TransactionStep::Make { key, value });
            }
        }
        ClientOperationPlan::Commit(steps)
    }

    /// The next action of a client.
    pub(crate) fn next_operation(&mut self) -> ClientOperationPlan {
        match self.random.below(100) {
            0..24 => ClientOperationPlan::Commit(self.mixed()),
            24..42 => self.read_first(),
            42..60 => ClientOperationPlan::Commit(self.transfer()),
            60..66 => {
                ClientOperationPlan::Commit(self.bank().into_iter().map(TransactionStep::Read).collect())
            }
            66..76 => ClientOperationPlan::ReadMany(self.keys(4)),
            76..82 => ClientOperationPlan::ReadMany(self.bank()),
            82..86 => {
                ClientOperationPlan::ReadFirst { reads: self.keys(4), together: false, writes: Vec::new() }
            }
            86..92 => ClientOperationPlan::Single(TransactionStep::Read(self.key())),
            _ => ClientOperationPlan::Single(self.write()),
        }
    }

    /// Appends to all lists of the first keyspace, so to most of its partitions, and to one list of
    /// the second.
    pub(crate) fn wide_operation(&mut self) -> ClientOperationPlan {
        let (mut keys, others): (Vec<ClassedKey>, Vec<ClassedKey>) =
            ClassedKey::all(KeyClass::List).into_iter().partition(|key| key.keyspace == 0);
        keys.push(*self.random.pick(&others));
        ClientOperationPlan::Commit(keys.into_iter().map(|key| self.write_of(key)).collect())
    }

    /// A conflicting action with the keys of a transaction, if it has several.
    pub(crate) fn conflicting_plan(&mut self, steps: &[TransactionStep]) -> Option<ClientOperationPlan> {
        let mut keys: Vec<ClassedKey> = steps.iter().map(|step| step.key()).collect();
        keys.sort_unstable();
        keys.dedup();
        let class = keys
            .iter()
            .map(|key| key.class)
            .find(|class| matches!(class, KeyClass::Account | KeyClass::Counter));
        Some(match (class, self.random.chance(1, 2)) {
            (Some(class), true) => ClientOperationPlan::ReadMany(ClassedKey::all(class)),
            (Some(class), false) => ClientOperationPlan::Commit(self.transfer_in(ClassedKey::all(class))),
            (None, _) if keys.len() < 2 => return None,
            (None, true) => ClientOperationPlan::ReadMany(keys),
            (None, false) => {
                ClientOperationPlan::Commit(keys.into_iter().map(|key| self.write_of(key)).collect())
            }
        })
    }

    /// The next blob operation of a client.
    pub(crate) fn blob(&mut self) -> blobs::BlobOperationPlan {
        let (value, tokens) = (self.value(), [self.value(), self.value()]);
        blobs::BlobOperationPlan::draw(&mut self.random, value, tokens)
    }

    /// The next call on the plain blob.
    pub(crate) fn plain_blob(&mut self) -> PlainBlobPlan {
        let value = self.value();
        PlainBlobPlan::draw(&mut self.random, value, self.has_truncations_in_steps)
    }

    /// Reads and blind writes; now and then a key occurs twice.
    fn mixed(&mut self) -> Vec<TransactionStep> {
        let count = self.random.between(1, 5);
        (0..count)
            .map(|_| if self.random.chance(2, 5) { TransactionStep::Read(self.key()) } else { self.write() })
            .collect()
    }

    fn read_first(&mut self) -> ClientOperationPlan {
        if self.random.chance(1, 5) {
            let (reads, together) = (self.bank(), self.random.chance(1, 2));
            let writes = self.transfer_in(reads.clone());
            return ClientOperationPlan::ReadFirst { reads, together, writes };
        }
        let reads = self.keys(3);
        let mut writes = vec![self.write()];
        // Mostly a key that was read.
        if self.random.chance(2, 3) {
            writes[0] = self.write_of(reads[0]);
        }
        if self.random.chance(1, 3) {
            writes.push(self.write());
        }
        ClientOperationPlan::ReadFirst { reads, together: self.random.chance(1, 3), writes }
    }

    /// A transfer between accounts of the same bank, sometimes by way of a third, with an entry in
    /// a list.
    fn transfer(&mut self) -> Vec<TransactionStep> {
        let bank = self.bank();
        self.transfer_in(bank)
    }

    fn transfer_in(&mut self, mut bank: Vec<ClassedKey>) -> Vec<TransactionStep> {
        let mut steps = Vec::new();
        let mut sum = 0;
        for _ in 0..self.random.between(1, 2) {
            let at = self.random.below(bank.len() as u64) as usize;
            let amount = self.random.between(1, 1 << 30) as i64;
            let amount = if self.random.chance(1, 2) { amount } else { -amount };
            sum += amount;
            steps.push(TransactionStep::Add(bank.swap_remove(at), amount));
        }
        let at = self.random.below(bank.len() as u64) as usize;
        steps.push(TransactionStep::Add(bank[at], -sum));
        if self.random.chance(1, 3) {
            steps.push(self.write());
        }
        steps
    }

    fn bank(&mut self) -> Vec<ClassedKey> {
        ClassedKey::all(*self.random.pick(&[KeyClass::Account, KeyClass::Counter]))
    }

    /// A list or a register.
    fn key(&mut self) -> ClassedKey {
        let class = *self.random.pick(&[KeyClass::List, KeyClass::List, KeyClass::Register]);
        let number = self.random.below(count(class));
        ClassedKey { keyspace: self.random.below(2) as usize, class, number }
    }

    /// Between two and `most` different keys.
    fn keys(&mut self, most: u64) -> Vec<ClassedKey> {
        let count = self.random.between(2, most);
        let mut keys: Vec<ClassedKey> = Vec::new();
        while keys.len() < count as usize {
            let key = self.key();
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    fn write(&mut self) -> TransactionStep {
        let key = self.key();
        self.write_of(key)
    }

    fn write_of(&mut self, key: ClassedKey) -> TransactionStep {
        let value = self.value();
        if key.class == KeyClass::List {
            return TransactionStep::Append(key, value);
        }
        let is_large = self.has_large_values && self.random.chance(1, 12);
        TransactionStep::Put { key, value, filler: if is_large { STAGED_BYTES } else { 0 } }
    }

    fn value(&mut self) -> u64 {
        self.values += 1;
        self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_unique_ids_and_names() {
        let all: Vec<ClassedKey> = [KeyClass::List, KeyClass::Register, KeyClass::Account, KeyClass::Counter]
            .into_iter()
            .flat_map(ClassedKey::all)
            .collect();
        let ids: std::collections::BTreeSet<u64> = all.iter().map(|key| key.id()).collect();
        let names: std::collections::BTreeSet<(usize, Vec<u8>)> =
            all.iter().map(|key| (key.keyspace, key.bytes())).collect();
        assert_eq!((ids.len(), names.len()), (all.len(), all.len()));
    }

    #[test]
    fn transfers_sum_to_zero_and_values_are_unique() {
        let mut draws = PlanDraws::new(Random::new(1), true, false);
        let mut values = std::collections::BTreeSet::new();
        for _ in 0..1_000 {
            let steps = match draws.next_operation() {
                ClientOperationPlan::Commit(steps) | ClientOperationPlan::ReadFirst { writes: steps, .. } => {
                    steps
                }
                ClientOperationPlan::Single(step) => vec![step],
                ClientOperationPlan::ReadMany(_) => continue,
            };
            let amounts =
                steps.iter().map(|step| if let TransactionStep::Add(_, by) = step { *by } else { 0 });
            assert_eq!(amounts.sum::<i64>(), 0);
            for step in &steps {
                if let TransactionStep::Append(_, value) | TransactionStep::Put { value, .. } = step {
                    assert!(values.insert(*value), "{value} comes twice");
                }
            }
        }
    }
}
