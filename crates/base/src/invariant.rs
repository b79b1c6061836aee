//! Invariants of state machines: the name of a broken one, and how often all of a state is checked.

use std::fmt;

/// A broken invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenInvariant {
    /// The state machine, with its article.
    pub owner: &'static str,
    /// The rule that does not hold.
    pub rule: &'static str,
}

impl fmt::Display for BrokenInvariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an invariant of {} is broken: {}", self.owner, self.rule)
    }
}

/// Checks the rules of a state machine, in order: each is whether it holds, and its name.
///
/// # Errors
/// The first rule that does not hold.
#[inline]
pub fn check_rules<const N: usize>(
    owner: &'static str,
    rules: [(bool, &'static str); N],
) -> Result<(), BrokenInvariant> {
    match rules.iter().find(|(holds, _)| !holds) {
        None => Ok(()),
        Some(&(_, rule)) => Err(BrokenInvariant { owner, rule }),
    }
}

/// Counts the steps of a state machine, so that all of its state is checked at some steps only. Without debug assertions it
/// counts nothing, and needs no memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckTurn {
    #[cfg(debug_assertions)]
    steps: u32,
}

impl CheckTurn {
    /// Counts a step. Returns whether it is one of the steps, `every` apart, at which all of the state is checked.
    #[inline]
    pub fn is_due(&mut self, every: u32) -> bool {
        #[cfg(debug_assertions)]
        {
            self.steps = self.steps.wrapping_add(1);
            self.steps.is_multiple_of(every)
        }
        #[cfg(not(debug_assertions))]
        {
            let _ = every;
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_broken_rule_is_named() {
        assert_eq!(check_rules("a door", [(true, "it has a handle"), (true, "it has a lock")]), Ok(()));
        let broken =
            check_rules("a door", [(true, "it has a handle"), (false, "it has a lock"), (false, "")]);
        assert_eq!(broken, Err(BrokenInvariant { owner: "a door", rule: "it has a lock" }));
        let text = broken.expect_err("is broken").to_string();
        assert_eq!(text, "an invariant of a door is broken: it has a lock");
    }

    #[test]
    #[cfg(debug_assertions)]
    fn all_is_checked_at_some_steps() {
        let mut turn = CheckTurn::default();
        let due: Vec<bool> = (0..6).map(|_| turn.is_due(3)).collect();
        assert_eq!(due, [false, false, true, false, false, true]);
    }
}
