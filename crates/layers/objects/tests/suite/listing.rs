//! Listings against a model that filters all names.

use std::collections::BTreeSet;

use proptest::prelude::*;
use zerohop_objects::{
    Conditions, ETag, Event, ListRequest, MarkerRecord, ObjectRecord, Procedure, Record, SetId, Step,
    StoredVersion, VersionId, VersionLinks, keys, list_objects,
};

use crate::world::{Intent, World};

/// The names and common prefixes that S3 lists.
fn expected(names: &BTreeSet<Vec<u8>>, request: &ListRequest) -> Vec<Vec<u8>> {
    let mut entries = Vec::new();
    for name in names.iter().filter(|name| name.starts_with(&request.prefix)) {
        let mut entry = name.clone();
        if let Some(delimiter) = &request.delimiter {
            let from = request.prefix.len();
            let place = name[from..].windows(delimiter.len()).position(|window| window == delimiter);
            if let Some(place) = place {
                entry.truncate(from + place + delimiter.len());
            }
        }
        let is_prefix =
            entry.len() < name.len() || request.delimiter.as_ref().is_some_and(|one| entry.ends_with(one));
        let is_after = match &request.after {
            None => true,
            Some(after) if is_prefix => name > after && entry != *after,
            Some(after) => name > after,
        };
        if is_after && entries.last() != Some(&entry) {
            entries.push(entry);
        }
    }
    entries
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let letters =
        prop::sample::select(vec![b"a".to_vec(), b"b".to_vec(), b"/".to_vec(), b"//".to_vec(), "é".into()]);
    prop::collection::vec(letters, 1..5).prop_map(|parts| parts.concat())
}

fn drive<P: Procedure>(world: &mut World, mut procedure: P) -> P::Output {
    let mut event = Event::Start;
    loop {
        match procedure.step(0, event) {
            Step::Effect(effect) => {
                event = world
                    .perform(&effect, &Intent::None, &Conditions::default())
                    .expect("nothing is violated");
            }
            Step::Done(result) => return result.unwrap_or_else(|error| panic!("{error}")),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn pages_are_those_of_the_model(
        names in prop::collection::btree_set(name(), 0..40),
        removed in prop::collection::btree_set(name(), 0..40),
        prefix in prop_oneof![Just(Vec::new()), name()],
        delimiter in prop_oneof![Just(None), Just(Some(b"/".to_vec())), Just(Some(b"//".to_vec()))],
        after in prop::option::of(name()),
        max in 1..6_usize,
    ) {
        let mut world = World::default();
        let create = zerohop_objects::create_bucket("bucket".to_owned(), Vec::new());
        drive(&mut world, create);
        let object = ObjectRecord {
            set: SetId([0; 16]), in_parts: false, size: 0, modified: 0, etag: ETag { md5: [0; 16], parts: 0 },
            checksum: None, attributes: Vec::new(), tags: Vec::new(), version: None,
        };
        for name in &names {
            world.records.insert(keys::object("bucket", name), (1, object.encode()));
        }
        // Delete markers, which no listing of objects shows.
        let links =
            VersionLinks { id: VersionId([0; 16]), is_null: false, older: None, newer: None, null: None };
        let marker = StoredVersion::Marker(MarkerRecord { modified: 0, links });
        for name in removed.difference(&names) {
            world.records.insert(keys::object("bucket", name), (1, marker.encode()));
        }
        // Names of another bucket, which no listing shows.
        world.records.insert(keys::object("bucket0", b"a"), (1, object.encode()));
        let mut request =
            ListRequest { bucket: "bucket".to_owned(), prefix, delimiter, after, after_id: None, max };
        let all = expected(&names, &request);
        let mut shown = Vec::new();
        loop {
            let page = drive(&mut world, list_objects(request.clone()));
            prop_assert!(page.entries.len() <= max);
            shown.extend(page.entries.iter().map(|entry| entry.name().to_vec()));
            prop_assert_eq!(page.is_truncated, shown.len() < all.len());
            if !page.is_truncated {
                break;
            }
            request.after = shown.last().cloned();
        }
        prop_assert_eq!(shown, all);
    }
}
