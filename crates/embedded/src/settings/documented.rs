//! `docs/formats/store.md` states the bytes of the settings file.

#[path = "../../../engine/src/documented/tables.rs"]
mod tables;

use tables::{Document, check, field, open};
use zerohop_placement::{KeyOrder, PartitionCount};

use super::StoreSettings;

const DOCUMENT: &str = include_str!("../../../../docs/formats/store.md");

#[test]
fn settings_are_as_documented() {
    check(DOCUMENT, settings);
    let example = DOCUMENT.split("```properties\n").find(|block| block.starts_with("zerohop embedded store"));
    let example = example.and_then(|block| block.split("```").next()).expect("the document has an example");
    let settings = StoreSettings::decode(example).expect("the example is valid");
    assert_eq!((settings.encode().as_str(), settings.order), (example, KeyOrder::Ordered));
}

fn settings(document: &mut Document<'_>) {
    // No ordered store has as many. So the numbers differ in length, and all lines are there.
    let partitions = PartitionCount::new(256).unwrap();
    let ordered =
        StoreSettings { instances: 7, partitions, seed: 0x00c0_ffee_00c0_ffee, order: KeyOrder::Ordered };
    let bytes = ordered.encode().into_bytes();
    let fields = [
        field("`zerohop embedded store, format` and a space", "zerohop embedded store, format "),
        field("`1` in a hashed store, `2` in an ordered store", "2"),
        field("line feed, `instances` and a space", "\ninstances "),
        field("number of instances, 1 to 255, decimal", "7"),
        field("line feed, `partitions` and a space", "\npartitions "),
        field("number of partitions, 1 to 65,536, a power of two, decimal", "256"),
        field("line feed, `seed` and a space", "\nseed "),
        field("hexadecimal, the highest digit first", "00c0ffee00c0ffee"),
        field("line feed", "\n"),
        open("only in format 2: `order bytes`, line feed", "order bytes\n"),
    ];
    document.layout(
        "The settings of an embedded store, formats 1 and 2 / offset",
        &[("i", 1), ("p", 3)],
        &bytes,
        &fields,
    );
    let hashed = StoreSettings { order: KeyOrder::Hashed, ..ordered }.encode();
    let expected = [&bytes[..31], b"1", &bytes[32..bytes.len() - 12]].concat();
    assert_eq!(hashed.as_bytes(), expected, "format 1 has no line of an order");
    let most = PartitionCount::new(65_536).map(PartitionCount::get);
    assert_eq!((most, PartitionCount::new(131_072).is_err(), super::INSTANCES_MAX), (Ok(65_536), true, 255));
}
