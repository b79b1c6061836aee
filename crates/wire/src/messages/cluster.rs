//! The cluster map and control requests: envelopes around the encodings of placement and the manager.

use crate::error::Failure;
use crate::fields::{FieldReader, layout, nothing_left};
use crate::ids::MapEpoch;
use crate::limits::{ADMIN_BYTES_MAX, MAP_BYTES_MAX};

/// Requests the cluster map. 8 bytes: since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapGet {
    /// The client's epoch; zero requests the complete map.
    pub since: MapEpoch,
}

/// The cluster map, or its changes. 24 bytes: epoch (8), since (8), zero (8); then the map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Map<'a> {
    /// The epoch of the map after the changes.
    pub epoch: MapEpoch,
    /// The epoch to which the changes apply; zero if this is the complete map, whatever was requested.
    pub since: MapEpoch,
    /// Map or changes, in placement's encoding; empty if nothing changed.
    pub encoded: &'a [u8],
}

/// A control request, or the reply to one: Protocol Buffers, which the manager decodes and this crate does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admin<'a> {
    /// The message.
    pub encoded: &'a [u8],
}

impl MapGet {
    pub(crate) fn encode(self) -> [u8; 8] {
        self.since.0.to_le_bytes()
    }

    pub(crate) fn decode_body(body: &[u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<8>::split(body)?;
        let since = MapEpoch(fields.u64());
        nothing_left(rest)?;
        Ok(Self { since })
    }
}

impl<'a> Map<'a> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        check_length(self.encoded, MAP_BYTES_MAX)?;
        let fields: [u8; 24] = layout(|to| to.u64(self.epoch.0).u64(self.since.0).zeros(8));
        out.extend_from_slice(&fields);
        Ok(self.encoded)
    }

    pub(crate) fn decode_body(body: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, encoded) = FieldReader::<24>::split(body)?;
        let (epoch, since) = (MapEpoch(fields.u64()), MapEpoch(fields.u64()));
        fields.zeros(8);
        fields.done()?;
        check_length(encoded, MAP_BYTES_MAX)?;
        Ok(Self { epoch, since, encoded })
    }
}

impl<'a> Admin<'a> {
    pub(crate) fn put(&self) -> Result<&'a [u8], Failure<'static>> {
        check_length(self.encoded, ADMIN_BYTES_MAX)?;
        Ok(self.encoded)
    }

    pub(crate) fn decode_body(body: &'a [u8]) -> Result<Self, Failure<'static>> {
        check_length(body, ADMIN_BYTES_MAX)?;
        Ok(Self { encoded: body })
    }
}

fn check_length(encoded: &[u8], limit: usize) -> Result<(), Failure<'static>> {
    if encoded.len() > limit {
        return Err(Failure::FrameTooLong { length: encoded.len() as u64, limit: limit as u32 });
    }
    Ok(())
}
