//! The keys of one ordered keyspace.
//!
//! ```text
//! b bucket                      a bucket
//! o bucket 00 name              the current version of an object; names in byte order
//! v bucket 00 name 00 id(16)    an older version; in the order of names, then the newest first
//! u bucket 00 name 00 set(16)   an upload; in the order of names, then of ids
//! s set(16)                     a body set
//! l set(16)                     the manifest of a completed upload
//! p set(16) part(2, big-endian) a part of an upload
//! d set(16) number(8, b.e.)     a body of an upload
//! t due(8, b.e.) set(16) number(8, b.e.)   a timer of the sweep; number 0: of the whole set
//! ```
//!
//! Neither names of buckets nor names of objects have the byte 00.

use zerohop_base::bytes::Reader;
pub use zerohop_layer_procedure::{RecordKey, after, end_of};

use crate::ids::{BodyId, SetId};
use crate::records::VersionId;

/// The key of a bucket.
#[must_use]
pub fn bucket(name: &str) -> RecordKey {
    [b"b", name.as_bytes()].concat()
}

/// The key of an object.
#[must_use]
pub fn object(bucket: &str, name: &[u8]) -> RecordKey {
    [b"o", bucket.as_bytes(), &[0], name].concat()
}

/// The key of an upload.
#[must_use]
pub fn upload(bucket: &str, name: &[u8], id: SetId) -> RecordKey {
    [b"u", bucket.as_bytes(), &[0], name, &[0], &id.0].concat()
}

/// The first key of the uploads of names from `name` on.
#[must_use]
pub fn uploads_from(bucket: &str, name: &[u8]) -> RecordKey {
    [b"u", bucket.as_bytes(), &[0], name].concat()
}

/// The name and the id that the key of an upload has behind the bucket.
#[must_use]
pub fn upload_of(bucket: &str, key: &[u8]) -> Option<(Vec<u8>, SetId)> {
    let rest = key.get(bucket.len() + 2..)?;
    let (front, id) = rest.split_last_chunk::<16>()?;
    let (0, name) = front.split_last()? else { return None };
    Some((name.to_vec(), SetId(*id)))
}

/// The key of a version that is not the current one.
#[must_use]
pub fn version(bucket: &str, name: &[u8], id: VersionId) -> RecordKey {
    [b"v", bucket.as_bytes(), &[0], name, &[0], &id.0].concat()
}

/// The first key of the versions of a name that are not current.
#[must_use]
pub fn versions_of(bucket: &str, name: &[u8]) -> RecordKey {
    [b"v", bucket.as_bytes(), &[0], name, &[0]].concat()
}

/// The first key of the older versions of names from `name` on.
#[must_use]
pub fn older_from(bucket: &str, name: &[u8]) -> RecordKey {
    [b"v", bucket.as_bytes(), &[0], name].concat()
}

/// The name and the id that the key of a version has behind the bucket.
#[must_use]
pub fn version_of(bucket: &str, key: &[u8]) -> Option<(Vec<u8>, VersionId)> {
    upload_of(bucket, key).map(|(name, id)| (name, VersionId(id.0)))
}

/// The key of a body set.
#[must_use]
pub fn set(id: SetId) -> RecordKey {
    [&b"s"[..], &id.0].concat()
}

/// The key of the manifest of a body set.
#[must_use]
pub fn manifest(id: SetId) -> RecordKey {
    [&b"l"[..], &id.0].concat()
}

/// The key of a part.
#[must_use]
pub fn part(id: SetId, number: u16) -> RecordKey {
    [&b"p"[..], &id.0, &number.to_be_bytes()].concat()
}

/// The part number that the key of a part has.
#[must_use]
pub fn part_of(key: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(*key.get(17..)?.first_chunk()?))
}

/// The key of a body of an upload.
#[must_use]
pub fn body(id: BodyId) -> RecordKey {
    [&b"d"[..], &id.set.0, &id.number.to_be_bytes()].concat()
}

/// The first keys of the parts and of the bodies of a set.
#[must_use]
pub fn of_set(letter: u8, id: SetId) -> RecordKey {
    [&[letter][..], &id.0].concat()
}

/// The number that the key of a body has.
#[must_use]
pub fn body_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*key.get(17..)?.first_chunk()?))
}

/// A timer of the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    /// When it is due, in milliseconds since 1970.
    pub due: u64,
    /// The set.
    pub set: SetId,
    /// A body of the set; 0 for the whole set.
    pub number: u64,
}

impl Timer {
    /// The key of the timer. Its record is empty.
    #[must_use]
    pub fn key(self) -> RecordKey {
        [&b"t"[..], &self.due.to_be_bytes(), &self.set.0, &self.number.to_be_bytes()].concat()
    }

    /// The timer that a key has.
    #[must_use]
    pub fn parse(key: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(key.strip_prefix(b"t")?);
        let due = u64::from_be_bytes(reader.array()?);
        let set = SetId(reader.array()?);
        let number = u64::from_be_bytes(reader.array()?);
        reader.is_at_end().then_some(Self { due, set, number })
    }

    /// The end of the keys of timers that are due at `now`.
    #[must_use]
    pub fn due_end(now: u64) -> RecordKey {
        [&b"t"[..], &now.saturating_add(1).to_be_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: SetId = SetId([0xff; 16]);

    #[test]
    fn keys_of_objects_keep_the_order_of_names_and_buckets_do_not_mix() {
        let mut keys =
            [object("ab", b"z"), object("ab", b""), object("abc", b"a"), object("ab", "é".as_bytes())];
        keys.sort();
        assert_eq!(keys[0], object("ab", b""));
        assert_eq!(keys[2], object("ab", "é".as_bytes()));
        assert_eq!(keys[3], object("abc", b"a"));
    }

    #[test]
    fn fields_of_keys_are_read_back() {
        let timer = Timer { due: 7, set: SET, number: 9 };
        assert_eq!(Timer::parse(&timer.key()), Some(timer));
        assert_eq!(upload_of("bkt", &upload("bkt", b"a/b", SET)), Some((b"a/b".to_vec(), SET)));
        assert_eq!(part_of(&part(SET, 10_000)), Some(10_000));
        assert_eq!(body_of(&body(BodyId { set: SET, number: 3 })), Some(3));
        for bytes in [&b"t"[..], b"", b"tshort"] {
            assert_eq!((Timer::parse(bytes), upload_of("bkt", bytes), part_of(bytes)), (None, None, None));
        }
    }

    #[test]
    fn end_of_a_prefix_is_above_all_its_keys() {
        assert!(end_of(&of_set(b'p', SET)) > part(SET, u16::MAX));
        assert!(end_of(&of_set(b'p', SET)) <= of_set(b'q', SetId([0; 16])));
    }
}
