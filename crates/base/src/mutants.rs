//! The switch of mutants: bugs that a test plants to show that the tests find them.
//!
//! A crate with mutants has a module `planted` with an enum of them and one use of [`mutant_switch!`](crate::mutant_switch).
//! Release builds, without debug assertions, have no mutants: the check is a constant there.

/// Defines `plant` and `is_planted` for the enum `$Bug` of a crate.
///
/// `plant(Some(bug))` switches a mutant on in the current thread, `plant(None)` switches it off. `is_planted(bug)` is what
/// the mutated code asks. Without debug assertions there is no `plant`, and `is_planted` is always false, as is
/// `is_any_planted`.
#[macro_export]
macro_rules! mutant_switch {
    ($Bug:ident) => {
        #[cfg(debug_assertions)]
        thread_local! {
            static PLANTED: ::std::cell::Cell<::std::option::Option<$Bug>> =
                const { ::std::cell::Cell::new(::std::option::Option::None) };
        }

        /// Switches a mutant on in this thread, or none.
        #[cfg(debug_assertions)]
        pub fn plant(bug: ::std::option::Option<$Bug>) {
            PLANTED.set(bug);
        }

        /// Whether a mutant is on in this thread.
        #[cfg(debug_assertions)]
        pub fn is_planted(bug: $Bug) -> bool {
            PLANTED.get() == ::std::option::Option::Some(bug)
        }

        /// Whether a mutant is on: never without debug assertions.
        #[cfg(not(debug_assertions))]
        pub const fn is_planted(_: $Bug) -> bool {
            false
        }

        /// Whether any mutant is on in this thread. Invariants may be broken then, and other checks are to find it.
        #[cfg(debug_assertions)]
        pub fn is_any_planted() -> bool {
            PLANTED.get().is_some()
        }

        /// Whether any mutant is on: never without debug assertions.
        #[cfg(not(debug_assertions))]
        pub const fn is_any_planted() -> bool {
            false
        }
    };
}

#[cfg(all(test, debug_assertions))]
#[expect(unreachable_pub, reason = "the macro defines what a crate exports")]
mod tests {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Bug {
        One,
        Two,
    }

    mutant_switch!(Bug);

    #[test]
    fn mutant_is_active_only_in_its_thread() {
        plant(Some(Bug::One));
        assert!(is_planted(Bug::One) && !is_planted(Bug::Two) && is_any_planted());
        let elsewhere = std::thread::scope(|scope| scope.spawn(|| is_planted(Bug::One)).join().ok());
        assert_eq!(elsewhere, Some(false));
        plant(None);
        assert!(!is_planted(Bug::One) && !is_any_planted());
    }
}
