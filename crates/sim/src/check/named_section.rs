//! The sections of one record, which are checked together.

use zerohop_wire::ids::KeyspaceId;

use super::linear::Section;
use super::model::ModelledRecord;
use crate::history::Outage;

/// A section, with its record.
#[derive(Debug)]
pub(crate) struct NamedSection<'h> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) key: &'h [u8],
    /// The outage at its end, if it ends with one.
    pub(crate) outage: Option<Outage>,
    pub(crate) start: ModelledRecord,
    /// In a cluster, all sections of the record, separated by losses; otherwise one.
    pub(crate) sections: Vec<Section<'h>>,
}
