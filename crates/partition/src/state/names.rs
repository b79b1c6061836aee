//! The names of the blobs of a partition, in order, for listings.

use std::collections::BTreeSet;
use std::ops::Bound;

/// Memory of one name beside its bytes: the tree's entry and its share of a node.
const ENTRY_BYTES: usize = 32;

/// The names of the committed headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeaderNames {
    names: BTreeSet<Box<[u8]>>,
    bytes: usize,
}

impl HeaderNames {
    /// Adds the name of a new blob.
    pub(crate) fn add(&mut self, name: &[u8]) -> bool {
        let is_new = !self.names.contains(name) && self.names.insert(name.into());
        if is_new {
            self.bytes += name.len() + ENTRY_BYTES;
        }
        is_new
    }

    /// Removes the name of a blob.
    pub(crate) fn remove(&mut self, name: &[u8]) {
        if self.names.remove(name) {
            self.bytes -= name.len() + ENTRY_BYTES;
        }
    }

    /// Names that begin with `prefix` and come behind `after` (empty: all), in order.
    pub(crate) fn behind<'n>(&'n self, prefix: &'n [u8], after: &[u8]) -> impl Iterator<Item = &'n [u8]> {
        let begin = match after >= prefix && !after.is_empty() {
            true => Bound::Excluded(after),
            false => Bound::Included(prefix),
        };
        let names = self.names.range::<[u8], _>((begin, Bound::Unbounded));
        names.map(|name| &**name).take_while(move |name| name.starts_with(prefix))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.names.iter().map(|name| &**name)
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// The memory of the table in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blob_names_continue_in_order_from_last_page() {
        let mut names = HeaderNames::default();
        for name in ["b/2", "a", "b/1", "b/3", "c", "b/1"] {
            names.add(name.as_bytes());
        }
        let page = |prefix: &str, after: &str| -> Vec<String> {
            let found = names.behind(prefix.as_bytes(), after.as_bytes());
            found.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
        };
        assert_eq!(page("b/", ""), ["b/1", "b/2", "b/3"]);
        assert_eq!(page("b/", "b/1"), ["b/2", "b/3"]);
        assert_eq!(page("b/", "a"), ["b/1", "b/2", "b/3"]);
        assert_eq!(page("b/", "b/3").len() + page("b/", "z").len() + page("x", "").len(), 0);
        assert_eq!(page("", "").len(), 5);
        names.iter().map(<[u8]>::to_vec).collect::<Vec<_>>().iter().for_each(|name| names.remove(name));
        assert_eq!((names.len(), names.bytes()), (0, 0));
    }
}
