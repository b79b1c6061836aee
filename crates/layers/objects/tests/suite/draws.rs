//! What clients draw for their operations.

use zerohop_base::random::Random;
use zerohop_objects::{Conditions, ETagMatch, ListRequest, VersionName, Versioning};

use crate::world::World;

pub(crate) const NAMES: [&str; 6] = ["a", "a/b", "a/c", "b", "b/", "c/d"];

pub(crate) fn draw_name(random: &mut Random) -> (String, Vec<u8>) {
    let bucket = ["one", "two"][random.below(2) as usize];
    (bucket.to_owned(), NAMES[random.below(6) as usize].as_bytes().to_vec())
}

pub(crate) fn draw_conditions(world: &World, key: &[u8], random: &mut Random) -> Conditions {
    let tag = world.current(key).map_or_else(|| "none".to_owned(), |(tag, _)| tag.clone());
    let tag = Some(ETagMatch::OneOf(vec![tag]));
    match random.below(6) {
        0 => Conditions { if_match: None, if_none_match: Some(ETagMatch::Any) },
        1 => Conditions { if_match: tag, if_none_match: None },
        2 => Conditions { if_match: None, if_none_match: tag },
        _ => Conditions::default(),
    }
}

pub(crate) fn draw_listing(bucket: String, random: &mut Random) -> ListRequest {
    ListRequest {
        bucket,
        prefix: if random.chance(1, 3) { b"a".to_vec() } else { Vec::new() },
        delimiter: random.chance(1, 3).then(|| b"/".to_vec()),
        after: random.chance(1, 3).then(|| NAMES[random.below(6) as usize].as_bytes().to_vec()),
        after_id: None,
        max: 1 + random.below(5) as usize,
    }
}

pub(crate) fn draw_bytes(random: &mut Random) -> [u8; 8] {
    let mut draw = [0; 8];
    random.fill(&mut draw);
    draw
}

pub(crate) fn draw_versioning(random: &mut Random) -> Versioning {
    if random.chance(2, 3) { Versioning::Enabled } else { Versioning::Suspended }
}

/// A version that the object has or had.
pub(crate) fn draw_version(world: &World, key: &[u8], random: &mut Random) -> Option<VersionName> {
    let versions = &world.versions.get(key)?.versions;
    let living: Vec<_> = versions.iter().filter(|version| version.until.is_none()).collect();
    if !living.is_empty() && random.chance(7, 8) {
        return Some(living[random.below(living.len() as u64) as usize].links.name());
    }
    let place = random.below(versions.len().max(1) as u64) as usize;
    versions.get(place).map(|version| version.links.name())
}
