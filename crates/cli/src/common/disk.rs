//! The room on the disks of nodes, as they report it.

use zerohop_wire::admin::NodeStatus;

use super::quantity::format_bytes;

/// Below this part of a disk, in percent, an operator should act.
const FREE_PERCENT_MIN: u64 = 10;

/// Below this, nodes refuse writes; it includes a margin for what they write meanwhile.
pub(crate) const FREE_BYTES_MIN: u64 = 256 << 20;

/// What to do about a disk that is almost full.
pub(crate) const ADVICE: &str =
    "make room, move the data to a larger disk, or add nodes: full nodes refuse writes and go on with reads";

/// The disk of a node's data folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeDisk {
    free: u64,
    total: u64,
}

impl NodeDisk {
    /// `None`: the node has no data folder, or has not reported its disk.
    pub(crate) fn of(node: &NodeStatus) -> Option<Self> {
        let (free, total) = (node.disk_free_bytes, node.disk_total_bytes);
        (total > 0).then_some(Self { free, total })
    }

    /// Its free bytes.
    pub(crate) fn free(self) -> u64 {
        self.free
    }

    pub(crate) fn is_low(self) -> bool {
        self.free < self.total / 100 * FREE_PERCENT_MIN
    }

    /// Nodes refuse writes at about this point.
    pub(crate) fn is_full(self) -> bool {
        self.free < FREE_BYTES_MIN && self.is_low()
    }

    /// Its free bytes in words.
    pub(crate) fn words(self) -> String {
        let Self { free, total } = self;
        format!(
            "{} of {} ({} %) are free",
            format_bytes(free),
            format_bytes(total),
            u128::from(free) * 100 / u128::from(total)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_is_low_below_a_tenth_and_shown_in_words() {
        let disk = |free, total| {
            let node = NodeStatus { disk_free_bytes: free, disk_total_bytes: total, ..NodeStatus::default() };
            NodeDisk::of(&node)
        };
        assert!(disk(0, 0).is_none());
        assert!(!disk(10 << 30, 100 << 30).unwrap().is_low());
        let low = disk(9 << 30, 100 << 30).unwrap();
        assert!(low.is_low() && !low.is_full());
        assert!(low.words().ends_with("(9 %) are free"), "{}", low.words());
        assert!(disk(200 << 20, 100 << 30).unwrap().is_full());
        assert!(!disk(200 << 20, 1 << 30).unwrap().is_full(), "a small disk of which much is free");
    }
}
