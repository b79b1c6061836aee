//! A table of values at stable positions, with handles that become invalid when their value is removed.

/// Names a value of [`Slots`] as long as the value is in the table, and afterwards nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Handle {
    pub(crate) index: u32,
    generation: u32,
}

/// Number of bits in a packed handle for a position inside the value.
const POSITION_BITS: u32 = 10;

/// Maximum number of values in a table whose handles are packed.
pub(crate) const PACKED_MAX: usize = 1 << (32 - POSITION_BITS);

impl Handle {
    /// Packs the handle and a position inside the value into one number, never zero.
    ///
    /// # Panics
    /// If the table has more than [`PACKED_MAX`] values.
    pub(crate) fn pack(self, place: u32) -> u64 {
        assert!((self.index as usize) < PACKED_MAX && place < 1 << POSITION_BITS, "a name has its bits");
        u64::from(self.generation) << 32 | u64::from(self.index) << POSITION_BITS | u64::from(place)
    }

    pub(crate) fn unpack(packed: u64) -> (Self, u32) {
        let (low, generation) = (packed as u32, (packed >> 32) as u32);
        (Self { index: low >> POSITION_BITS, generation }, low & ((1 << POSITION_BITS) - 1))
    }
}

/// Values at positions that are reused.
#[derive(Debug)]
pub(crate) struct Slots<V> {
    /// The generation of a free position is that of its next value.
    positions: Vec<(u32, Option<V>)>,
    free: Vec<u32>,
}

impl<V> Slots<V> {
    pub(crate) fn new() -> Self {
        Self { positions: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.positions.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, value: V) -> Handle {
        let index = self.free.pop().unwrap_or_else(|| {
            self.positions.push((1, None));
            // The limits are `OPERATIONS_MAX`, and windows times connections.
            u32::try_from(self.positions.len() - 1).expect("a session holds fewer than 2^32 things")
        });
        let (generation, place) = &mut self.positions[index as usize];
        *place = Some(value);
        Handle { index, generation: *generation }
    }

    #[inline]
    pub(crate) fn get(&self, handle: Handle) -> Option<&V> {
        match self.positions.get(handle.index as usize)? {
            (generation, value) if *generation == handle.generation => value.as_ref(),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, handle: Handle) -> Option<&mut V> {
        match self.positions.get_mut(handle.index as usize)? {
            (generation, value) if *generation == handle.generation => value.as_mut(),
            _ => None,
        }
    }

    pub(crate) fn remove(&mut self, handle: Handle) -> Option<V> {
        let (generation, place) = self.positions.get_mut(handle.index as usize)?;
        if *generation != handle.generation {
            return None;
        }
        let value = place.take()?;
        // A handle repeats after 2^32 - 1 uses of one position: by then everything that was sent under it is long lost.
        *generation = generation.wrapping_add(1).max(1);
        self.free.push(handle.index);
        Some(value)
    }

    /// The handle of the value at a position, whatever its generation.
    pub(crate) fn at(&self, index: u32) -> Option<Handle> {
        match self.positions.get(index as usize)? {
            (generation, Some(_)) => Some(Handle { index, generation: *generation }),
            (_, None) => None,
        }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.positions.iter_mut().filter_map(|(_, value)| value.as_mut())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle, &V)> {
        self.positions.iter().zip(0..).filter_map(|((generation, value), index)| {
            value.as_ref().map(|value| (Handle { index, generation: *generation }, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handle_of_removed_value_does_not_match_next_value() {
        let mut slots = Slots::new();
        let first = slots.insert('a');
        assert_eq!(slots.remove(first), Some('a'));
        let second = slots.insert('b');
        assert_eq!(first.index, second.index);
        assert_eq!(slots.get(first), None);
        assert_eq!(slots.remove(first), None);
        assert_eq!((slots.get(second), slots.len()), (Some(&'b'), 1));
        for place in [0, 1, (1 << POSITION_BITS) - 1] {
            assert_eq!(Handle::unpack(second.pack(place)), (second, place));
        }
    }
}
