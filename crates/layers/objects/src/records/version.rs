//! Object versions and delete markers.

use zerohop_base::bytes::Reader;

use super::links::VersionLinks;
use super::object::{LINKED_OBJECT, ObjectRecord};
use super::{FORMAT, Record};

/// The format of a delete marker.
const MARKER: u8 = 3;

/// A delete marker: as the current version it hides the older ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkerRecord {
    /// When it was written, in milliseconds since 1970.
    pub modified: u64,
    /// Its place.
    pub links: VersionLinks,
}

/// A version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredVersion {
    /// With contents.
    Object(ObjectRecord),
    /// A delete marker.
    Marker(MarkerRecord),
}

impl StoredVersion {
    /// The object, unless it is a delete marker.
    #[must_use]
    pub const fn object(&self) -> Option<&ObjectRecord> {
        match self {
            Self::Object(object) => Some(object),
            Self::Marker(_) => None,
        }
    }

    /// Its place. An object that was written before its bucket kept versions gets one from its time and its set.
    #[must_use]
    pub fn links(&self) -> VersionLinks {
        match self {
            Self::Marker(marker) => marker.links,
            Self::Object(object) => {
                object.version.unwrap_or_else(|| VersionLinks::alone(object.modified, object.set.draw()))
            }
        }
    }

    pub(crate) const fn set_links(&mut self, links: VersionLinks) {
        match self {
            Self::Object(object) => object.version = Some(links),
            Self::Marker(marker) => marker.links = links,
        }
    }
}

impl Record for StoredVersion {
    fn format(&self) -> u8 {
        match self {
            Self::Object(object) => object.format(),
            Self::Marker(_) => MARKER,
        }
    }

    fn write(&self, into: &mut Vec<u8>) {
        match self {
            Self::Object(object) => object.write(into),
            Self::Marker(marker) => {
                into.extend_from_slice(&marker.modified.to_le_bytes());
                marker.links.write(into);
            }
        }
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        match format {
            FORMAT | LINKED_OBJECT => ObjectRecord::read(format, reader).map(Self::Object),
            MARKER => {
                let modified = reader.u64()?;
                Some(Self::Marker(MarkerRecord { modified, links: VersionLinks::read(reader)? }))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SetId;
    use crate::records::ETag;

    #[test]
    fn object_without_a_place_has_the_bytes_of_earlier_programs() {
        let mut earlier = vec![1];
        earlier.extend([7; 16]);
        earlier.push(0);
        earlier.extend(5_u64.to_le_bytes());
        earlier.extend(9_u64.to_le_bytes());
        earlier.extend([3; 16]);
        // No parts, no checksum, no attributes, no tags.
        earlier.extend([0; 2 + 1 + 4 + 4]);
        let object = ObjectRecord {
            set: SetId([7; 16]),
            in_parts: false,
            size: 5,
            modified: 9,
            etag: ETag { md5: [3; 16], parts: 0 },
            checksum: None,
            attributes: Vec::new(),
            tags: Vec::new(),
            version: None,
        };
        assert_eq!(object.encode(), earlier);
        let found = StoredVersion::decode(&earlier);
        assert_eq!(found, Some(StoredVersion::Object(object)));
        assert_eq!(found.map(|version| version.links().is_null), Some(true));
    }
}
