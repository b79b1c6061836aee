//! The manifest: the contents of a backup. A folder without a manifest is not a backup.

use super::{FieldsReader, FormatError, VERSION, checksum, put_counted};

const MAGIC: [u8; 4] = *b"ZHBM";
/// The version of manifests with separators.
const VERSION_SEPARATORS: u32 = 2;
/// Bytes before the body: magic, version, length and checksum of the body.
const HEAD_BYTES: usize = 16;
/// The longest file: that of some five million parts.
pub const MANIFEST_BYTES_MAX: u64 = 256 << 20;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Random id of this backup, which its parts name.
    pub id: [u8; 16],
    /// Id of its base; zeros for a full backup.
    pub base: [u8; 16],
    /// The folder of the base when this backup was created; empty for a full backup. Only its last name is used, since a
    /// manifest must not choose which folders are read.
    pub base_folder: String,
    /// The timestamp of its snapshot.
    pub at: u64,
    /// The time of its snapshot, in ms since 1970.
    pub at_ms: u64,
    /// Keyspaces, which parts name by their index.
    pub keyspaces: Vec<Keyspace>,
    /// Parts; an empty partition has none.
    pub parts: Vec<Part>,
}

/// A keyspace and its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyspace {
    /// Its name.
    pub name: String,
    /// Its id in the cluster.
    pub id: u32,
    /// Number of partitions.
    pub partitions: u32,
    /// The hash function for keys.
    pub hash: String,
    /// Number of copies.
    pub replicas: u32,
    /// Number of copies that must store a write before it is acknowledged.
    pub min_in_sync: u32,
    /// When a copy counts as stored.
    pub durability: String,
    /// Size of a blob's chunks, in bytes.
    pub chunk_bytes: u32,
    /// The keys at which the partitions of an ordered keyspace begin, after the first one.
    pub separators: Vec<Vec<u8>>,
}

/// One part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Index of the keyspace.
    pub keyspace: u32,
    /// The partition of the keyspace.
    pub partition: u32,
    /// Bytes of its file.
    pub length: u64,
    /// CRC-32C of its file.
    pub checksum: u32,
    /// Number of records and blobs in it.
    pub records: u64,
    /// Number of these that are unchanged since the base.
    pub kept: u64,
}

impl Part {
    /// The name of its file.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{:04}-{:07}.part", self.keyspace, self.partition)
    }
}

impl Manifest {
    /// Whether it depends on a base.
    #[must_use]
    pub fn is_incremental(&self) -> bool {
        self.base != [0; 16]
    }

    /// The partitions of a keyspace that have a part. A keyspace may claim any number of partitions.
    pub(crate) fn partitions_of(&self, keyspace: u32) -> impl Iterator<Item = u32> {
        self.parts.iter().filter(move |part| part.keyspace == keyspace).map(|part| part.partition)
    }

    /// Encodes the bytes of its file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let has_separators = self.keyspaces.iter().any(|keyspace| !keyspace.separators.is_empty());
        let version = if has_separators { VERSION_SEPARATORS } else { VERSION };
        let mut body = Vec::new();
        body.extend_from_slice(&self.id);
        body.extend_from_slice(&self.base);
        put_counted(self.base_folder.as_bytes(), &mut body);
        body.extend_from_slice(&self.at.to_le_bytes());
        body.extend_from_slice(&self.at_ms.to_le_bytes());
        body.extend_from_slice(&(self.keyspaces.len() as u32).to_le_bytes());
        for keyspace in &self.keyspaces {
            let Keyspace {
                name, id, partitions, hash, replicas, min_in_sync, durability, chunk_bytes, ..
            } = keyspace;
            for text in [name, hash, durability] {
                put_counted(text.as_bytes(), &mut body);
            }
            for number in [id, partitions, replicas, min_in_sync, chunk_bytes] {
                body.extend_from_slice(&number.to_le_bytes());
            }
            if version == VERSION_SEPARATORS {
                body.extend_from_slice(&(keyspace.separators.len() as u32).to_le_bytes());
                keyspace.separators.iter().for_each(|separator| put_counted(separator, &mut body));
            }
        }
        body.extend_from_slice(&(self.parts.len() as u32).to_le_bytes());
        for Part { keyspace, partition, length, checksum, records, kept } in &self.parts {
            for number in [keyspace, partition, checksum] {
                body.extend_from_slice(&number.to_le_bytes());
            }
            for number in [length, records, kept] {
                body.extend_from_slice(&number.to_le_bytes());
            }
        }
        let mut out = Vec::with_capacity(HEAD_BYTES + body.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        out.extend_from_slice(&checksum(&body).to_le_bytes());
        out.extend_from_slice(&body);
        out
    }

    /// Decodes the bytes of its file.
    ///
    /// # Errors
    /// They are not a manifest, have another version, are truncated or corrupt, or contradict
    /// themselves.
    pub fn decode(bytes: &[u8]) -> Result<Manifest, FormatError> {
        let mut from = FieldsReader::new(bytes);
        if from.array::<4>()? != MAGIC {
            return Err(FormatError("it is no manifest of a backup"));
        }
        let version = from.u32()?;
        if ![VERSION, VERSION_SEPARATORS].contains(&version) {
            return Err(FormatError("it is of a version that this program does not know"));
        }
        let (length, sum) = (from.u32()? as usize, from.u32()?);
        if from.0.rest().len() != length {
            return Err(FormatError("it has another length than it says"));
        }
        if checksum(from.0.rest()) != sum {
            return Err(FormatError("it does not match its checksum"));
        }
        let (id, base, base_folder) = (from.array()?, from.array()?, from.text()?);
        let (at, at_ms) = (from.u64()?, from.u64()?);
        let mut manifest = Manifest { id, base, base_folder, at, at_ms, ..Manifest::default() };
        for _ in 0..from.u32()? {
            let (name, hash, durability) = (from.text()?, from.text()?, from.text()?);
            let (id, partitions, replicas) = (from.u32()?, from.u32()?, from.u32()?);
            let (min_in_sync, chunk_bytes) = (from.u32()?, from.u32()?);
            let mut separators = Vec::new();
            if version == VERSION_SEPARATORS {
                for _ in 0..from.u32()? {
                    separators.push(from.counted()?.to_vec());
                }
            }
            manifest.keyspaces.push(Keyspace {
                name,
                id,
                partitions,
                hash,
                replicas,
                min_in_sync,
                durability,
                chunk_bytes,
                separators,
            });
        }
        if version == VERSION_SEPARATORS && manifest.keyspaces.iter().all(|one| one.separators.is_empty()) {
            return Err(FormatError("it is of a later version than it needs"));
        }
        for _ in 0..from.u32()? {
            let (keyspace, partition, checksum) = (from.u32()?, from.u32()?, from.u32()?);
            let (length, records, kept) = (from.u64()?, from.u64()?, from.u64()?);
            let of =
                manifest.keyspaces.get(keyspace as usize).ok_or(FormatError("a part is of no keyspace"))?;
            if partition >= of.partitions {
                return Err(FormatError("a part is of no partition of its keyspace"));
            }
            let part = Part { keyspace, partition, length, checksum, records, kept };
            let place = |part: &Part| (part.keyspace, part.partition);
            if manifest.parts.last().is_some_and(|before| place(before) >= place(&part)) {
                return Err(FormatError("parts do not stand in order"));
            }
            manifest.parts.push(part);
        }
        from.end()?;
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_round_trips_and_truncated_or_corrupt_one_is_refused() {
        let keyspace = Keyspace {
            name: "default".to_owned(),
            id: 1,
            partitions: 8,
            hash: "xxh3".to_owned(),
            replicas: 3,
            min_in_sync: 2,
            durability: "interval:100ms".to_owned(),
            chunk_bytes: 1 << 20,
            separators: Vec::new(),
        };
        let part = |partition| Part { keyspace: 0, partition, length: 9, checksum: 8, records: 7, kept: 6 };
        let manifest = Manifest {
            id: [1; 16],
            base: [2; 16],
            base_folder: "../monday".to_owned(),
            at: 77,
            at_ms: 78,
            keyspaces: vec![keyspace],
            parts: vec![part(0), part(5)],
        };
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes), Ok(manifest.clone()));
        for at in 0..bytes.len() {
            assert!(Manifest::decode(&bytes[..at]).is_err());
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(Manifest::decode(&damaged).is_err());
        }
        assert_eq!(bytes[4..8], VERSION.to_le_bytes(), "older programs read it");
        let mut divided = manifest.clone();
        divided.keyspaces[0].separators = vec![b"m".to_vec(), b"n\0\xff".to_vec()];
        divided.keyspaces.push(Keyspace { name: "hashed".to_owned(), ..Keyspace::default() });
        let bytes = divided.encode();
        assert_eq!(bytes[4..8], VERSION_SEPARATORS.to_le_bytes());
        assert_eq!(Manifest::decode(&bytes), Ok(divided));
        for parts in [vec![part(8)], vec![part(5), part(0)], vec![part(1), part(1)]] {
            assert!(Manifest::decode(&Manifest { parts, ..manifest.clone() }.encode()).is_err());
        }
    }
}
