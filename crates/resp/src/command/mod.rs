//! The commands: their names, where their keys are, and what executes them.

mod kinds;
mod table;

use std::ops::Range;

pub(crate) use kinds::{ConnectionCommand, GatherCommand, KeyedCommand, LocalCommand};
pub(crate) use table::TABLE;

/// A command.
#[derive(Debug)]
pub(crate) struct CommandRow {
    /// In lower case.
    pub(crate) name: &'static str,
    /// The number of arguments with the name; if negative, at least its absolute value.
    pub(crate) arity: i8,
    pub(crate) flags: u16,
    pub(crate) keys: KeyPositions,
    pub(crate) group: &'static str,
    /// The version of Redis that first had it.
    pub(crate) since: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) how: Executor,
}

/// Changes records.
pub(crate) const WRITE: u16 = 1;
/// Reads records.
pub(crate) const READONLY: u16 = 1 << 1;
/// Takes the same short time whatever the size of the data.
pub(crate) const FAST: u16 = 1 << 2;
/// May add to what is stored.
pub(crate) const DENYOOM: u16 = 1 << 3;
/// Is refused between `MULTI` and `EXEC`.
pub(crate) const NO_MULTI: u16 = 1 << 4;
/// Is for operators.
pub(crate) const ADMIN: u16 = 1 << 5;
/// Needs no authentication.
pub(crate) const NO_AUTH: u16 = 1 << 6;
/// May make its client wait.
pub(crate) const BLOCKING: u16 = 1 << 7;

/// Positions of the keys among the arguments: first, last (negative: from the end), step. All 0: no
/// keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyPositions {
    pub(crate) first: i8,
    pub(crate) last: i8,
    pub(crate) step: i8,
}

/// What executes a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Executor {
    /// The partition of its keys.
    Keyed(KeyedCommand),
    /// The connection, without records.
    Local(LocalCommand),
    /// The connection, by changing its own state.
    Special(ConnectionCommand),
    /// All partitions.
    AllPartitions(GatherCommand),
}

impl CommandRow {
    /// The command with this name, in upper or lower case.
    #[inline]
    pub(crate) fn find(name: &[u8]) -> Option<&'static CommandRow> {
        let mut at = spread(name);
        loop {
            let place = usize::from(*NAMES.get(at)?);
            let command = TABLE.get(place)?;
            if command.name.as_bytes().eq_ignore_ascii_case(name) {
                return Some(command);
            }
            at = (at + 1) % NAMES.len();
        }
    }

    /// Whether it accepts so many arguments, its name included.
    #[inline]
    pub(crate) fn accepts_count(&self, arguments: usize) -> bool {
        let arity = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { arguments >= arity } else { arguments == arity }
    }

    pub(crate) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn is_write(&self) -> bool {
        self.has(WRITE)
    }

    /// The positions of its keys among so many arguments, and the step between them.
    #[inline]
    pub(crate) fn key_positions(&self, arguments: usize) -> (Range<usize>, usize) {
        let KeyPositions { first, last, step } = self.keys;
        if first == 0 {
            return (0..0, 1);
        }
        let last = if last < 0 {
            arguments.saturating_sub(usize::from(last.unsigned_abs()))
        } else {
            usize::from(last.unsigned_abs())
        };
        (usize::from(first.unsigned_abs())..last + 1, usize::from(step.unsigned_abs()).max(1))
    }
}

/// Indexes into [`TABLE`] by name, in open addressing. An index beyond the table's end means empty.
static NAMES: [u8; 512] = names();

const fn names() -> [u8; 512] {
    assert!(TABLE.len() < 255);
    let mut names = [255; 512];
    let mut place = 0;
    while place < TABLE.len() {
        let mut at = spread(TABLE[place].name.as_bytes());
        while names[at] != 255 {
            at = (at + 1) % names.len();
        }
        names[at] = place as u8;
        place += 1;
    }
    names
}

/// The first slot to probe for a name: FNV-1a of its lower case.
const fn spread(name: &[u8]) -> usize {
    let mut hash: u32 = 0x811c_9dc5;
    let mut at = 0;
    // No name is longer.
    while at < name.len() && at < 24 {
        hash = (hash ^ (name[at] | 0x20) as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    ((hash >> 16) ^ hash) as usize % 512
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lookup_ignores_case_and_refuses_unknown_names() {
        for command in TABLE {
            assert_eq!(CommandRow::find(command.name.as_bytes()).unwrap().name, command.name);
            let upper = command.name.to_ascii_uppercase();
            assert_eq!(CommandRow::find(upper.as_bytes()).unwrap().name, command.name);
            assert_eq!(command.name, command.name.to_ascii_lowercase());
            let longer = format!("{}x", command.name);
            assert!(
                TABLE.iter().any(|one| one.name == longer) || CommandRow::find(longer.as_bytes()).is_none()
            );
        }
        assert!(CommandRow::find(b"").is_none());
        assert!(CommandRow::find(&[0xff; 100]).is_none());
    }

    #[test]
    fn only_commands_with_keys_run_at_partitions() {
        for command in TABLE {
            let keyed = matches!(command.how, Executor::Keyed(_)) || command.name == "watch";
            assert_eq!(keyed, command.keys.first > 0, "{}", command.name);
            if keyed {
                assert!(
                    command.has(WRITE) != command.has(READONLY) || command.name == "watch",
                    "{}",
                    command.name
                );
            }
        }
    }
}
