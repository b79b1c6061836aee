//! Values at indices, with keys that are never reused.

/// A growing array of slots; a key is the index of a slot and how often that slot was used before.
#[derive(Debug)]
pub(super) struct Slots<T> {
    slots: Vec<DiskSlot<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct DiskSlot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slots<T> {
    pub(super) fn new() -> Self {
        Slots { slots: Vec::new(), free: Vec::new() }
    }

    pub(super) fn insert(&mut self, value: T) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(DiskSlot { generation: 0, value: None });
            u32::try_from(self.slots.len() - 1).expect("fewer than four billion values at a time")
        });
        let slot = &mut self.slots[index as usize];
        slot.value = Some(value);
        u64::from(slot.generation) << 32 | u64::from(index)
    }

    pub(super) fn get(&self, key: u64) -> Option<&T> {
        let slot = self.slots.get(key as u32 as usize)?;
        if u64::from(slot.generation) == key >> 32 { slot.value.as_ref() } else { None }
    }

    pub(super) fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        let slot = self.slots.get_mut(key as u32 as usize)?;
        if u64::from(slot.generation) == key >> 32 { slot.value.as_mut() } else { None }
    }

    pub(super) fn remove(&mut self, key: u64) -> Option<T> {
        self.get(key)?;
        let slot = &mut self.slots[key as u32 as usize];
        // A slot whose counter is exhausted stays empty forever.
        if let Some(generation) = slot.generation.checked_add(1) {
            slot.generation = generation;
            self.free.push(key as u32);
        }
        slot.value.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_find_their_value_and_are_never_reused() {
        let mut slots = Slots::new();
        let (a, b) = (slots.insert("a"), slots.insert("b"));
        assert_eq!(slots.get(a), Some(&"a"));
        assert_eq!(slots.get_mut(b), Some(&mut "b"));
        assert_eq!(slots.remove(a), Some("a"));
        assert_eq!(slots.remove(a), None);
        let c = slots.insert("c");
        assert!(c != a && slots.get(a).is_none() && slots.get(c) == Some(&"c"));
        assert_eq!(slots.get(u64::MAX), None);
        assert_eq!(slots.slots.len(), 2, "a free slot is taken again");
    }
}
