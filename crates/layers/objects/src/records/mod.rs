//! The records of the keyspace and their bytes.
//!
//! The first byte of each record is its format. A decoder takes untrusted bytes and never panics. `docs/formats/objects.md` has
//! the tables.

mod bucket;
#[cfg(test)]
mod documented;
mod lifecycle;
mod links;
mod object;
mod set;
mod upload;
mod version;

pub use bucket::{BucketRecord, Versioning};
pub use lifecycle::{
    Expiration, FilterForm, LifecycleRule, LifecycleRules, NoncurrentExpiration, RuleFilter,
};
pub use links::{VersionId, VersionLinks, VersionName};
pub use object::{Checksum, ETag, ObjectRecord, Pairs};
pub(crate) use set::cut;
pub use set::{BodyRecord, Manifest, SetRecord};
pub use upload::{PartRecord, UploadRecord};
pub use version::{MarkerRecord, StoredVersion};
pub use zerohop_layer_procedure::Record;
use zerohop_layer_procedure::record::{
    FORMAT, only_format, read_bytes, read_flag, read_list, read_option, read_text, write_bytes, write_list,
    write_option,
};

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
            rules().encode(),
        ]
    }

    fn rules() -> LifecycleRules {
        let filter = RuleFilter {
            form: FilterForm::And,
            prefix: Some("a/".to_owned()),
            tags: vec![("k".to_owned(), "v".to_owned())],
            larger_than: Some(1),
            smaller_than: Some(9),
        };
        let rule = LifecycleRule {
            id: "one".to_owned(),
            is_enabled: true,
            filter,
            expiration: Some(Expiration::Days(3)),
            noncurrent: Some(NoncurrentExpiration { days: 4, newer: 5 }),
            abort_days: Some(6),
        };
        let none = RuleFilter {
            form: FilterForm::Prefix,
            prefix: None,
            tags: Vec::new(),
            larger_than: None,
            smaller_than: None,
        };
        let others = [None, Some(Expiration::Date(1 << 40)), Some(Expiration::Markers(true))];
        let others = others.map(|expiration| LifecycleRule {
            id: String::new(),
            is_enabled: false,
            filter: none.clone(),
            expiration,
            noncurrent: None,
            abort_days: None,
        });
        LifecycleRules { rules: [rule].into_iter().chain(others).collect() }
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
            one::<LifecycleRules>(bytes),
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
            sample in 0..samples().len(),
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
