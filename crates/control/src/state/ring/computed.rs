//! A keyspace of many partitions on similar nodes is placed by a rule instead of partition by partition.

use std::collections::BTreeSet;

use zerohop_placement::limits::PLACED_PARTITIONS_MIN;
use zerohop_placement::{Groups, KeyspaceConfig};

use super::{Ring, RingPoint};
use zerohop_base::random::mix64;

impl Ring {
    /// Groups for the partitions of a new keyspace. Many partitions on similar instances with gapless ids get
    /// a computed placement: the members of a group are neighbours in a ring in which all neighbours are in
    /// different domains. Otherwise, or if there is no such ring, they are chosen one by one
    /// ([`Ring::spread`]).
    pub fn groups_for(&self, config: &KeyspaceConfig) -> Groups {
        let partitions = config.partitions.get();
        let computed = if partitions < PLACED_PARTITIONS_MIN { None } else { self.computed(config) };
        computed.unwrap_or_else(|| self.spread(config).into())
    }

    fn computed(&self, config: &KeyspaceConfig) -> Option<Groups> {
        let mut points = self.points().to_vec();
        points.sort_by_key(|point| point.instance);
        let (first, count) = (*points.first()?, u32::try_from(points.len()).ok()?);
        let is_alike = |pair: &[RingPoint]| {
            pair[0].instance.get() + 1 == pair[1].instance.get() && pair[0].weight == pair[1].weight
        };
        let copies = usize::from(config.replicas);
        if !points.windows(2).all(is_alike) || copies > points.len() {
            return None;
        }
        let others = config.replicas - 1;
        let in_sync = others.min(config.min_in_sync.saturating_sub(1));
        // The ring is the same for all keyspaces; only the place of partition 0 in it differs.
        let turn = (mix64(config.seed) % u64::from(count)) as u32;
        let ring = |step| zerohop_placement::Ring {
            first: first.instance,
            count,
            step,
            first_position: turn,
            splits: 0,
        };
        let steps =
            (0..u32::BITS).flat_map(|bit| [1_u32 << bit, (1 << bit) + 1, (1_u32 << bit).wrapping_sub(1)]);
        let step = steps
            .filter(|step| ring(*step).is_valid(copies, config.partitions.get()))
            .find(|step| has_distinct_domains(&points, *step as usize, copies))?;
        Groups::in_ring(ring(step), config.partitions.get(), in_sync, others - in_sync)
    }
}

/// Whether so many neighbours are in different domains everywhere in the ring of this step.
fn has_distinct_domains(points: &[RingPoint], step: usize, copies: usize) -> bool {
    (0..points.len()).all(|at| {
        let domains: BTreeSet<u32> =
            (0..copies).map(|next| points[(at + next * step) % points.len()].domain).collect();
        domains.len() == copies
    })
}
