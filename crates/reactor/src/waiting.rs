//! Memory that an instance uses for its connections: incomplete frames, unread replies, queued or running commands, and requests that wait for a
//! record. There is one limit for all of it, and another for each token.
//!
//! Links between instances are not counted: their messages have limits of their own.

use std::collections::BTreeMap;

use zerohop_wire::auth::Access;

/// The load of one connection, or of all connections of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WaitingLoad {
    pub(super) bytes: usize,
    /// Number of requests that wait for a record.
    pub(super) waits: usize,
}

/// The limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitingBounds {
    /// Bytes over all connections.
    pub(super) bytes_max: usize,
    /// The limits of one token.
    pub(super) of_token: WaitingLoad,
}

/// The loads of all connections and tokens; see the module.
#[derive(Debug)]
pub(super) struct WaitingShares {
    bounds: WaitingBounds,
    bytes: usize,
    by_token: BTreeMap<u64, WaitingLoad>,
}

impl WaitingShares {
    pub(super) fn new(bounds: WaitingBounds) -> WaitingShares {
        WaitingShares { bounds, bytes: 0, by_token: BTreeMap::new() }
    }

    /// Whether the load of a connection may change from `before` to `after`. Optional buffers leave a quarter of the total room to replies.
    pub(super) fn may_change_load(&self, access: Access, before: WaitingLoad, after: WaitingLoad) -> bool {
        let bytes_max = self.bounds.bytes_max - self.bounds.bytes_max / 4;
        self.fits(access, (before, after), bytes_max)
    }

    /// Changes the load of a connection from `before` to `after`. Returns whether the result is within the limits.
    pub(super) fn change(&mut self, access: Access, before: WaitingLoad, after: WaitingLoad) -> bool {
        let fits = self.fits(access, (before, after), self.bounds.bytes_max);
        self.bytes = self.bytes - before.bytes + after.bytes;
        if let Access::Token(id) = access {
            let load = self.by_token.entry(id).or_default();
            load.bytes = load.bytes - before.bytes + after.bytes;
            load.waits = load.waits - before.waits + after.waits;
            if *load == WaitingLoad::default() {
                self.by_token.remove(&id);
            }
        }
        fits
    }

    /// Whether a token's load is so high that its connections are not read until clients read their replies.
    pub(super) fn is_crowded(&self, access: Access) -> bool {
        self.of(access).bytes > self.bounds.of_token.bytes / 2
    }

    fn of(&self, access: Access) -> WaitingLoad {
        match access {
            Access::Token(id) => self.by_token.get(&id).copied().unwrap_or_default(),
            Access::All => WaitingLoad::default(),
        }
    }

    fn fits(&self, access: Access, (before, after): (WaitingLoad, WaitingLoad), bytes_max: usize) -> bool {
        let (grows, waits_more) = (after.bytes > before.bytes, after.waits > before.waits);
        let has_token = matches!(access, Access::Token(_));
        let WaitingLoad { bytes, waits } = self.of(access);
        let WaitingBounds { of_token, .. } = self.bounds;
        let all_fit = self.bytes - before.bytes + after.bytes <= bytes_max;
        let bytes_fit = !has_token || bytes - before.bytes + after.bytes <= of_token.bytes;
        let waits_fit = !has_token || waits - before.waits + after.waits <= of_token.waits;
        (!grows || all_fit && bytes_fit) && (!waits_more || waits_fit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: WaitingBounds =
        WaitingBounds { bytes_max: 1000, of_token: WaitingLoad { bytes: 300, waits: 2 } };
    const ONE: Access = Access::Token(1);
    const OTHER: Access = Access::Token(2);

    fn bytes(bytes: usize) -> WaitingLoad {
        WaitingLoad { bytes, waits: 0 }
    }

    #[test]
    fn a_token_has_a_share_and_all_together_have_a_bound() {
        let mut waiting = WaitingShares::new(BOUNDS);
        let none = WaitingLoad::default();
        assert!(
            waiting.may_change_load(ONE, none, bytes(300)) && !waiting.may_change_load(ONE, none, bytes(301))
        );
        assert!(
            waiting.change(ONE, none, bytes(200)) && waiting.is_crowded(ONE) && !waiting.is_crowded(OTHER)
        );
        assert!(!waiting.may_change_load(ONE, none, bytes(101)), "another connection of the same token");
        assert!(waiting.may_change_load(ONE, bytes(200), bytes(300)), "the same connection");
        assert!(waiting.may_change_load(OTHER, none, bytes(300)));
        assert!(waiting.change(Access::All, none, bytes(550)), "a client with the secret has no share");
        assert!(!waiting.may_change_load(OTHER, none, bytes(1)), "a quarter is left to replies");
        assert!(waiting.change(OTHER, none, bytes(250)) && !waiting.change(OTHER, none, bytes(1)));
        assert!(waiting.change(OTHER, bytes(1), none) && waiting.change(OTHER, bytes(250), none));
        assert!(waiting.change(Access::All, bytes(550), none) && waiting.change(ONE, bytes(200), none));
        assert_eq!((waiting.bytes, waiting.by_token.len()), (0, 0));
    }

    #[test]
    fn load_decrease_always_fits_and_waits_have_own_limit() {
        let mut waiting = WaitingShares::new(BOUNDS);
        assert!(!waiting.change(ONE, bytes(0), bytes(400)));
        assert!(waiting.change(ONE, bytes(400), bytes(350)), "it is still too much, and less");
        let load = |waits| WaitingLoad { bytes: 0, waits };
        assert!(waiting.change(OTHER, load(0), load(2)));
        assert!(
            !waiting.may_change_load(OTHER, load(2), load(3))
                && waiting.may_change_load(OTHER, load(2), load(1))
        );
    }
}
