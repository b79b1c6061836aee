//! Compares the records of objects with the blobs of their bodies, as of one moment.
//!
//! A body is written under a record that exists before it, and its record goes after it. So in a snapshot each blob has a record,
//! each object its bytes, and each set as many references as objects and copied parts name it.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_objects::{
    BodyId, BodyRecord, BucketRecord, Manifest, ObjectError, PartRecord, Record, SetId, SetRecord,
    StoredVersion, UploadRecord, WHOLE_OBJECT,
};

/// What a check counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Buckets.
    pub buckets: u64,
    /// Objects.
    pub objects: u64,
    /// Older versions of objects.
    pub versions: u64,
    /// The bytes of all objects and versions. Copies count each.
    pub bytes: u64,
    /// Multipart uploads in progress.
    pub uploads: u64,
    /// Blobs of bodies.
    pub bodies: u64,
    /// Bodies that are being written, or that the sweep of a gateway removes: no object has them.
    pub unused_bodies: u64,
    /// Faults, in words: a healthy store has none.
    pub faults: Vec<String>,
}

/// The records and blobs of a snapshot, as far as they were read.
#[derive(Debug, Default)]
pub struct Check {
    report: CheckReport,
    sets: BTreeMap<SetId, SetRecord>,
    /// The objects and copied parts that name a set.
    references: BTreeMap<SetId, u64>,
    /// The bodies that objects and parts name and that have bytes.
    named: BTreeSet<BodyId>,
    /// Bodies of uploads that have a record of their own.
    recorded: BTreeMap<BodyId, BodyRecord>,
    manifests: BTreeSet<SetId>,
    in_parts: BTreeSet<SetId>,
}

impl Check {
    /// Adds a record.
    ///
    /// # Errors
    /// The record is corrupt.
    pub fn add_record(&mut self, key: &[u8], value: &[u8]) -> Result<(), ObjectError> {
        self.read_record(key, value).ok_or_else(|| ObjectError::Corrupt(key.to_vec()))
    }

    fn read_record(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let set = |key: &[u8]| Some(SetId(*key.get(1..)?.first_chunk()?));
        match key.first()? {
            b'b' => {
                BucketRecord::decode(value)?;
                self.report.buckets += 1;
            }
            letter @ (b'o' | b'v') => {
                let version = StoredVersion::decode(value)?;
                // A delete marker has no contents.
                let Some(object) = version.object() else { return Some(()) };
                if *letter == b'o' {
                    self.report.objects += 1;
                } else {
                    self.report.versions += 1;
                }
                self.report.bytes = self.report.bytes.saturating_add(object.size);
                *self.references.entry(object.set).or_default() += 1;
                if object.in_parts {
                    self.in_parts.insert(object.set);
                } else if object.size > 0 {
                    self.named.insert(BodyId { set: object.set, number: WHOLE_OBJECT });
                }
            }
            b'u' => {
                UploadRecord::decode(value)?;
                self.report.uploads += 1;
            }
            b's' => drop(self.sets.insert(set(key)?, SetRecord::decode(value)?)),
            b'l' => {
                Manifest::decode(value)?;
                self.manifests.insert(set(key)?);
            }
            b'p' => {
                let part = PartRecord::decode(value)?;
                if let Some(source) = part.source {
                    *self.references.entry(source).or_default() += 1;
                }
                self.named
                    .extend(part.ranges.iter().filter(|range| range.length > 0).map(|range| range.body));
            }
            b'd' => {
                let number = zerohop_objects::keys::body_of(key)?;
                self.recorded.insert(BodyId { set: set(key)?, number }, BodyRecord::decode(value)?);
            }
            // A timer of the sweep.
            b't' => {}
            _ => return None,
        }
        Some(())
    }

    /// Ends the check with the names of all blobs.
    #[must_use]
    pub fn finish<'n>(mut self, blobs: impl IntoIterator<Item = &'n [u8]>) -> CheckReport {
        let mut missing = std::mem::take(&mut self.named);
        for name in blobs {
            self.report.bodies += 1;
            let text = String::from_utf8_lossy(name);
            let Some(body) = body_of_blob(&text) else {
                self.report.faults.push(format!("blob {text:?} is not the body of an object"));
                continue;
            };
            missing.remove(&body);
            let is_live = match body.number {
                WHOLE_OBJECT => self.sets.get(&body.set).map(|set| matches!(set, SetRecord::Live { .. })),
                _ => self.recorded.get(&body).map(|record| matches!(record, BodyRecord::Live { .. })),
            };
            match is_live {
                Some(true) => {}
                Some(false) => self.report.unused_bodies += 1,
                None => {
                    let fault = format!("no record names the body {text}, so that it stays for ever");
                    self.report.faults.push(fault);
                }
            }
        }
        for body in missing {
            self.report.faults.push(format!("the body {} of an object is missing", body.blob_name()));
        }
        for set in self.in_parts.difference(&self.manifests) {
            self.report.faults.push(format!("the list of the parts of set {set} is missing"));
        }
        for (set, record) in &self.sets {
            let counted = self.references.remove(set).unwrap_or(0);
            let recorded = match record {
                SetRecord::Live { references, .. } => *references,
                SetRecord::Pending { .. } | SetRecord::Open | SetRecord::Dead { .. } => 0,
            };
            if recorded != counted {
                self.report.faults.push(format!(
                    "set {set} has {recorded} references, and {counted} objects or parts name it"
                ));
            }
        }
        for set in self.references.into_keys() {
            self.report.faults.push(format!("set {set}, which an object or a part names, has no record"));
        }
        self.report
    }
}

/// The body whose blob has this name.
fn body_of_blob(name: &str) -> Option<BodyId> {
    let (set, number) = name.split_once('-')?;
    let body = BodyId { set: SetId::parse(set)?, number: u64::from_str_radix(number, 16).ok()? };
    (body.blob_name() == name).then_some(body)
}

#[cfg(test)]
mod tests {
    use zerohop_objects::{ETag, MarkerRecord, ObjectRecord, VersionId, VersionLinks, keys};

    use super::*;

    const SET: SetId = SetId([7; 16]);

    fn object(set: SetId) -> Vec<u8> {
        let object = ObjectRecord {
            set,
            in_parts: false,
            size: 5,
            modified: 1,
            etag: ETag { md5: [0; 16], parts: 0 },
            checksum: None,
            attributes: Vec::new(),
            tags: Vec::new(),
            version: None,
        };
        object.encode()
    }

    /// A bucket with an object of two names.
    fn healthy() -> Vec<(Vec<u8>, Vec<u8>)> {
        vec![
            (keys::bucket("papers"), BucketRecord::default().encode()),
            (keys::object("papers", b"a"), object(SET)),
            (keys::object("papers", b"copy"), object(SET)),
            (keys::set(SET), SetRecord::Live { references: 2, in_parts: false }.encode()),
        ]
    }

    fn report(records: &[(Vec<u8>, Vec<u8>)], blobs: &[&str]) -> CheckReport {
        let mut check = Check::default();
        records.iter().for_each(|(key, value)| check.add_record(key, value).unwrap());
        check.finish(blobs.iter().map(|name| name.as_bytes()))
    }

    #[test]
    fn healthy_store_has_no_faults() {
        let body = BodyId { set: SET, number: WHOLE_OBJECT }.blob_name();
        let found = report(&healthy(), &[&body]);
        assert_eq!(found.faults, Vec::<String>::new());
        assert_eq!((found.buckets, found.objects, found.bytes, found.bodies), (1, 2, 10, 1));
    }

    #[test]
    fn each_fault_is_found() {
        let body = BodyId { set: SET, number: WHOLE_OBJECT }.blob_name();
        let other = BodyId { set: SetId([8; 16]), number: WHOLE_OBJECT }.blob_name();
        let only = |found: CheckReport, words: &str| {
            assert!(
                matches!(&found.faults[..], [fault] if fault.contains(words)),
                "{words}: {:?}",
                found.faults
            );
        };
        only(report(&healthy(), &[]), "is missing");
        only(report(&healthy(), &[&body, &other]), "stays for ever");
        only(report(&healthy(), &[&body, "notes.txt"]), "is not the body");
        only(report(&healthy()[..3], &[&body]).without("stays for ever"), "has no record");
        let mut leaked = healthy();
        leaked.remove(2);
        only(report(&leaked, &[&body]), "has 2 references, and 1 objects");
        let pending = vec![(keys::set(SET), SetRecord::Pending { until: 9 }.encode())];
        let found = report(&pending, &[&body]);
        assert_eq!((found.unused_bodies, found.faults.len()), (1, 0));
    }

    #[test]
    fn older_versions_count_as_references_and_markers_do_not() {
        let body = BodyId { set: SET, number: WHOLE_OBJECT }.blob_name();
        let id = VersionId([1; 16]);
        let links = VersionLinks { id, is_null: false, older: None, newer: None, null: None };
        let marker = StoredVersion::Marker(MarkerRecord { modified: 1, links }).encode();
        let mut records = healthy();
        records[2] = (keys::version("papers", b"a", id), object(SET));
        records.push((keys::object("papers", b"b"), marker));
        let found = report(&records, &[&body]);
        assert_eq!(found.faults, Vec::<String>::new());
        assert_eq!((found.objects, found.versions), (1, 1));
    }

    impl CheckReport {
        fn without(mut self, words: &str) -> Self {
            self.faults.retain(|fault| !fault.contains(words));
            self
        }
    }

    #[test]
    fn corrupt_record_is_an_error() {
        let mut check = Check::default();
        let key = keys::object("papers", b"a");
        assert_eq!(check.add_record(&key, &[250]), Err(ObjectError::Corrupt(key.clone())));
        assert!(check.add_record(b"x", b"").is_err());
    }
}
