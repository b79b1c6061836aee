//! The text form of copies of partitions: NODE:INSTANCE, as `zerohop partition move` takes them.

use std::collections::BTreeMap;

use zerohop_wire::admin::Status;

/// The node of each instance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(BTreeMap<u32, u32>);

impl Places {
    pub(crate) fn of(status: &Status) -> Places {
        let of_node = |node: &zerohop_wire::admin::NodeStatus| {
            let id = node.id;
            node.instances.iter().map(move |instance| (instance.id, id)).collect::<Vec<_>>()
        };
        Places(status.nodes.iter().flat_map(of_node).collect())
    }

    /// The node of an instance; 0: unknown.
    pub(crate) fn node(&self, instance: u32) -> u32 {
        self.0.get(&instance).copied().unwrap_or(0)
    }

    /// An instance with its node.
    pub(crate) fn name(&self, instance: u32) -> String {
        match self.0.get(&instance) {
            Some(node) => format!("{node}:{instance}"),
            None => format!("?:{instance}"),
        }
    }

    /// Several instances; `-`: none.
    pub(crate) fn names(&self, instances: &[u32]) -> String {
        match instances {
            [] => "-".to_owned(),
            some => some.iter().map(|one| self.name(*one)).collect::<Vec<_>>().join(","),
        }
    }
}
