//! The records of the keyspace and their bytes.
//!
//! The first byte of each record is its format. A decoder takes untrusted bytes and never panics. `docs/formats/objects.md` has
//! the tables.

mod bucket;
#[cfg(test)]
mod documented;
mod links;
mod object;
mod set;
mod upload;
mod version;

use zerohop_base::bytes::Reader;

pub use bucket::{BucketRecord, Versioning};
pub use links::{VersionId, VersionLinks, VersionName};
pub use object::{Checksum, ETag, ObjectRecord, Pairs};
pub(crate) use set::cut;
pub use set::{BodyRecord, Manifest, SetRecord};
pub use upload::{PartRecord, UploadRecord};
pub use version::{MarkerRecord, StoredVersion};

/// The format of all records that have only one.
const FORMAT: u8 = 1;

/// The most elements of a list in a record.
const LIST_MAX: usize = 1 << 20;

/// A record with a format.
pub trait Record: Sized {
    /// Its bytes.
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.format()];
        self.write(&mut bytes);
        bytes
    }

    /// Its format.
    fn format(&self) -> u8 {
        FORMAT
    }

    /// The record that `bytes` have.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let format = reader.u8()?;
        let record = Self::read(format, &mut reader)?;
        reader.is_at_end().then_some(record)
    }

    /// Appends the fields.
    fn write(&self, into: &mut Vec<u8>);

    /// Reads the fields of a format.
    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self>;
}

/// Refuses all formats but that of records with only one.
fn only_format(format: u8) -> Option<()> {
    (format == FORMAT).then_some(())
}

fn write_bytes(into: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("fields are below 4 GiB");
    into.extend_from_slice(&length.to_le_bytes());
    into.extend_from_slice(bytes);
}

fn read_bytes(reader: &mut Reader<'_>) -> Option<Vec<u8>> {
    let length = reader.u32()? as usize;
    reader.bytes(length).map(<[u8]>::to_vec)
}

fn read_text(reader: &mut Reader<'_>) -> Option<String> {
    String::from_utf8(read_bytes(reader)?).ok()
}

fn read_flag(reader: &mut Reader<'_>) -> Option<bool> {
    match reader.u8()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn write_list<T>(into: &mut Vec<u8>, list: &[T], mut write: impl FnMut(&mut Vec<u8>, &T)) {
    let count = u32::try_from(list.len()).expect("lists are below 2^32 elements");
    into.extend_from_slice(&count.to_le_bytes());
    list.iter().for_each(|element| write(into, element));
}

fn read_list<'a, T>(
    reader: &mut Reader<'a>,
    bytes_min: usize,
    read: impl FnMut(&mut Reader<'a>) -> Option<T>,
) -> Option<Vec<T>> {
    let count = reader.count(bytes_min, LIST_MAX)?;
    let mut read = read;
    (0..count).map(|_| read(reader)).collect()
}

fn write_option<T>(into: &mut Vec<u8>, value: Option<&T>, write: impl FnOnce(&mut Vec<u8>, &T)) {
    into.push(u8::from(value.is_some()));
    if let Some(value) = value {
        write(into, value);
    }
}

fn read_option<'a, T>(
    reader: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Option<T>,
) -> Option<Option<T>> {
    if read_flag(reader)? { read(reader).map(Some) } else { Some(None) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ids::{BodyId, BodyRange, SetId};

    fn samples() -> Vec<Vec<u8>> {
        let set = SetId([7; 16]);
        let range = BodyRange { body: BodyId { set, number: 5 }, offset: 1, length: 2 };
        let checksum = Checksum { algorithm: 3, composite: true, value: vec![1, 2, 3] };
        let pairs = vec![("content-type".to_owned(), "text/plain".to_owned())];
        let id = VersionId([6; 16]);
        let links =
            VersionLinks { id, is_null: true, older: None, newer: Some(id), null: Some(VersionId([5; 16])) };
        let object = ObjectRecord {
            set,
            in_parts: true,
            size: 12,
            modified: 8,
            etag: ETag { md5: [1; 16], parts: 2 },
            checksum: Some(checksum.clone()),
            attributes: pairs.clone(),
            tags: pairs.clone(),
            version: None,
        };
        let part = PartRecord {
            number: 3,
            size: 2,
            modified: 9,
            etag: ETag { md5: [4; 16], parts: 0 },
            checksum: Some(checksum),
            body: Some(5),
            source: Some(set),
            ranges: vec![range],
        };
        vec![
            BucketRecord {
                created: 3,
                under_removal: true,
                generation: 2,
                settings: vec![("cors".to_owned(), vec![1])],
            }
            .encode(),
            object.encode(),
            ObjectRecord { version: Some(links), ..object }.encode(),
            UploadRecord {
                initiated: 1,
                is_frozen: false,
                generation: 4,
                checksum_algorithm: 2,
                is_composite: true,
                attributes: pairs.clone(),
                tags: pairs,
            }
            .encode(),
            part.encode(),
            Manifest { parts: vec![part] }.encode(),
            SetRecord::Pending { until: 5 }.encode(),
            SetRecord::Open.encode(),
            SetRecord::Live { references: 2, in_parts: true }.encode(),
            SetRecord::Dead { in_parts: false, until: 9 }.encode(),
            BodyRecord::Pending { until: 3 }.encode(),
            BodyRecord::Live { part: 3 }.encode(),
            BodyRecord::Dead.encode(),
            StoredVersion::Marker(MarkerRecord { modified: 4, links }).encode(),
        ]
    }

    fn decode_as_each(bytes: &[u8]) -> Vec<Vec<u8>> {
        fn one<R: Record>(bytes: &[u8]) -> Option<Vec<u8>> {
            R::decode(bytes).map(|record| record.encode())
        }
        [
            one::<BucketRecord>(bytes),
            one::<ObjectRecord>(bytes),
            one::<StoredVersion>(bytes),
            one::<UploadRecord>(bytes),
            one::<PartRecord>(bytes),
            one::<Manifest>(bytes),
            one::<SetRecord>(bytes),
            one::<BodyRecord>(bytes),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    #[test]
    fn records_are_read_back_and_no_prefix_of_one_is_a_record() {
        for bytes in samples() {
            assert!(decode_as_each(&bytes).contains(&bytes), "{bytes:?}");
            for end in 0..bytes.len() {
                let longer: Vec<_> = decode_as_each(&bytes[..end]);
                assert!(longer.iter().all(|again| again == &bytes[..end]), "{bytes:?} to {end}");
            }
        }
    }

    proptest! {
        #[test]
        fn decoders_never_panic_and_what_they_read_is_written_the_same(
            sample in 0..12_usize,
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        ) {
            let mut bytes = samples()[sample].clone();
            for (place, byte) in changes {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            for again in decode_as_each(&bytes) {
                prop_assert_eq!(&again, &bytes);
            }
        }
    }
}
