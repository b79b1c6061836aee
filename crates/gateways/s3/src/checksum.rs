//! The checksums of S3: over whole bodies, over parts, and over checksums of parts.

use crc_fast::CrcAlgorithm;
use s3s::crypto::{Checksum as Hash, Crc32, Crc32c, Crc64Nvme, Md5, Sha1, Sha256};
use zerohop_objects::{Checksum, ETag, ObjectError, PartRecord};

use crate::base64;

/// An algorithm. Its number is stored in records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Algorithm {
    Crc32 = 1,
    Crc32c = 2,
    Crc64Nvme = 3,
    Sha1 = 4,
    Sha256 = 5,
}

/// All algorithms.
pub(crate) const ALGORITHMS: [Algorithm; 5] =
    [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Crc64Nvme, Algorithm::Sha1, Algorithm::Sha256];

impl Algorithm {
    /// The algorithm of a record.
    pub(crate) fn of_number(number: u8) -> Option<Self> {
        ALGORITHMS.into_iter().find(|one| *one as u8 == number)
    }

    /// The name in requests.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "CRC32",
            Self::Crc32c => "CRC32C",
            Self::Crc64Nvme => "CRC64NVME",
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
        }
    }

    /// The algorithm of a name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        ALGORITHMS.into_iter().find(|one| one.name().eq_ignore_ascii_case(name))
    }

    /// The header or trailer that has the checksum.
    pub(crate) fn header(self) -> String {
        format!("x-amz-checksum-{}", self.name().to_ascii_lowercase())
    }

    const fn crc(self) -> Option<(CrcAlgorithm, usize)> {
        match self {
            Self::Crc32 => Some((CrcAlgorithm::Crc32IsoHdlc, 4)),
            Self::Crc32c => Some((CrcAlgorithm::Crc32Iscsi, 4)),
            Self::Crc64Nvme => Some((CrcAlgorithm::Crc64Nvme, 8)),
            Self::Sha1 | Self::Sha256 => None,
        }
    }

    /// Whether the checksum of an upload is by default that of the checksums of its parts.
    pub(crate) const fn is_composite_by_default(self) -> bool {
        !matches!(self, Self::Crc64Nvme)
    }

    /// Whether an upload may have that kind of checksum.
    pub(crate) const fn permits(self, is_composite: bool) -> bool {
        if is_composite { !matches!(self, Self::Crc64Nvme) } else { self.crc().is_some() }
    }

    fn hash(self, bytes: &[u8]) -> Vec<u8> {
        let mut hasher = Hasher::new(self);
        hasher.update(bytes);
        hasher.finish()
    }
}

/// A running checksum.
pub(crate) enum Hasher {
    Crc32(Crc32),
    Crc32c(Crc32c),
    Crc64Nvme(Crc64Nvme),
    Sha1(Box<Sha1>),
    Sha256(Box<Sha256>),
}

impl Hasher {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Crc32 => Self::Crc32(Crc32::new()),
            Algorithm::Crc32c => Self::Crc32c(Crc32c::new()),
            Algorithm::Crc64Nvme => Self::Crc64Nvme(Crc64Nvme::new()),
            Algorithm::Sha1 => Self::Sha1(Box::new(Sha1::new())),
            Algorithm::Sha256 => Self::Sha256(Box::new(Sha256::new())),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Crc32(hash) => hash.update(bytes),
            Self::Crc32c(hash) => hash.update(bytes),
            Self::Crc64Nvme(hash) => hash.update(bytes),
            Self::Sha1(hash) => hash.update(bytes),
            Self::Sha256(hash) => hash.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        match self {
            Self::Crc32(hash) => hash.finalize().to_vec(),
            Self::Crc32c(hash) => hash.finalize().to_vec(),
            Self::Crc64Nvme(hash) => hash.finalize().to_vec(),
            Self::Sha1(hash) => hash.finalize().to_vec(),
            Self::Sha256(hash) => hash.finalize().to_vec(),
        }
    }
}

/// The MD5 of bytes.
pub(crate) fn md5(bytes: &[u8]) -> [u8; 16] {
    Md5::checksum(bytes)
}

/// The text of a checksum in headers. A composite one has the number of parts behind it.
pub(crate) fn text(checksum: &Checksum, parts: u16) -> String {
    let text = base64::encode(&checksum.value);
    if checksum.composite { format!("{text}-{parts}") } else { text }
}

/// The entity tag and the checksum of an object of parts.
pub(crate) fn assemble(
    algorithm: Option<Algorithm>,
    is_composite: bool,
    parts: &[PartRecord],
) -> Result<(ETag, Option<Checksum>), ObjectError> {
    let digests: Vec<u8> = parts.iter().flat_map(|part| part.etag.md5).collect();
    let count = u16::try_from(parts.len()).map_err(|_| ObjectError::InvalidPart)?;
    let etag = ETag { md5: md5(&digests), parts: count };
    let algorithm = algorithm.unwrap_or(Algorithm::Crc64Nvme);
    let values: Option<Vec<&[u8]>> = parts
        .iter()
        .map(|part| {
            part.checksum.as_ref().filter(|one| one.algorithm == algorithm as u8).map(|one| &one.value[..])
        })
        .collect();
    let Some(values) = values else { return Ok((etag, None)) };
    let value = match algorithm.crc() {
        Some((crc, bytes)) if !is_composite => {
            let sizes = parts.iter().map(|part| part.size);
            let combined = values.iter().zip(sizes).fold(None, |combined: Option<u64>, (value, size)| {
                let value = value.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
                Some(match combined {
                    None => value,
                    Some(before) => crc_fast::checksum_combine(crc, before, value, size),
                })
            });
            combined.unwrap_or(0).to_be_bytes()[8 - bytes..].to_vec()
        }
        _ => algorithm.hash(&values.concat()),
    };
    Ok((etag, Some(Checksum { algorithm: algorithm as u8, composite: is_composite, value })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(algorithm: Algorithm, bytes: &[u8]) -> PartRecord {
        PartRecord {
            number: 1,
            size: bytes.len() as u64,
            modified: 0,
            etag: ETag { md5: md5(bytes), parts: 0 },
            checksum: Some(Checksum {
                algorithm: algorithm as u8,
                composite: false,
                value: algorithm.hash(bytes),
            }),
            body: None,
            source: None,
            ranges: Vec::new(),
        }
    }

    #[test]
    fn full_checksum_of_parts_is_that_of_all_bytes() {
        for algorithm in [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Crc64Nvme] {
            let parts = [part(algorithm, b"1234"), part(algorithm, b""), part(algorithm, b"56789")];
            let (_, checksum) = assemble(Some(algorithm), false, &parts).expect("three parts are permitted");
            assert_eq!(checksum.map(|one| one.value), Some(algorithm.hash(b"123456789")), "{algorithm:?}");
        }
        assert_eq!(Algorithm::Crc32.hash(b"123456789"), 0xcbf4_3926_u32.to_be_bytes());
    }

    #[test]
    fn composite_checksum_is_that_of_the_checksums() {
        let parts = [part(Algorithm::Sha256, b"a"), part(Algorithm::Sha256, b"b")];
        let (etag, checksum) =
            assemble(Some(Algorithm::Sha256), true, &parts).expect("two parts are permitted");
        let digests = [Algorithm::Sha256.hash(b"a"), Algorithm::Sha256.hash(b"b")].concat();
        let checksum = checksum.expect("all parts have a checksum");
        assert_eq!(checksum.value, Algorithm::Sha256.hash(&digests));
        assert!(text(&checksum, etag.parts).ends_with("=-2"));
        assert_eq!(etag.md5, md5(&[md5(b"a"), md5(b"b")].concat()));
    }
}
