//! What the settings of a bucket let all clients do, and the block of public access.

use zerohop_objects::BucketRecord;

use crate::policy::{self, PublicPolicy};

/// The setting of a bucket: its block of public access.
pub(crate) const BLOCK_SETTING: &str = "public-access-block";
/// The format of the setting.
const FORMAT: u8 = 1;

/// The parts of a block of public access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AccessBlock(u8);

impl AccessBlock {
    /// Refuses ACLs that make the bucket public.
    pub(crate) const PUBLIC_ACLS: u8 = 1;
    /// Ignores an ACL that made the bucket public.
    pub(crate) const IGNORED_ACLS: u8 = 2;
    /// Refuses policies, all of which are public.
    pub(crate) const PUBLIC_POLICY: u8 = 4;
    /// Ignores the policy of the bucket.
    pub(crate) const RESTRICTED: u8 = 8;

    /// The block with these parts.
    pub(crate) fn new(parts: [(u8, bool); 4]) -> Self {
        Self(parts.into_iter().filter(|(_, is_set)| *is_set).fold(0, |bits, (part, _)| bits | part))
    }

    /// Whether it has a part.
    pub(crate) const fn has(self, part: u8) -> bool {
        self.0 & part != 0
    }

    /// The bytes of the setting.
    pub(crate) fn encode(self) -> Vec<u8> {
        vec![FORMAT, self.0]
    }

    /// The block of a bucket, if it has one. One that cannot be read blocks everything.
    pub(crate) fn of(bucket: &BucketRecord) -> Option<Self> {
        match bucket.setting(BLOCK_SETTING)? {
            [FORMAT, bits @ 0..=15] => Some(Self(*bits)),
            _ => Some(Self(15)),
        }
    }
}

/// The text of the policy of a bucket.
pub(crate) fn policy_text(bucket: &BucketRecord) -> Option<&str> {
    std::str::from_utf8(bucket.setting(policy::SETTING)?).ok()
}

/// What all clients may do in a bucket of this name.
pub(crate) fn of_bucket(name: &str, bucket: &BucketRecord) -> Option<PublicPolicy> {
    let text = policy_text(bucket)?;
    let block = AccessBlock::of(bucket).unwrap_or_default();
    let is_of_acl = text == policy::public_read(name);
    if block.has(AccessBlock::RESTRICTED) || is_of_acl && block.has(AccessBlock::IGNORED_ACLS) {
        return None;
    }
    PublicPolicy::read(text, name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(policy: &str, block: Option<&[u8]>) -> BucketRecord {
        let mut bucket = BucketRecord::default();
        bucket.set(policy::SETTING, Some(policy.as_bytes().to_vec()));
        bucket.set(BLOCK_SETTING, block.map(<[u8]>::to_vec));
        bucket
    }

    #[test]
    fn block_switches_policies_off_and_a_corrupt_one_blocks_everything() {
        let by_acl = policy::public_read("b");
        let by_policy = by_acl.replace("2012", "2008");
        let is_public = |policy: &str, block: Option<&[u8]>| of_bucket("b", &bucket(policy, block)).is_some();
        assert!(is_public(&by_acl, None) && is_public(&by_policy, None));
        assert!(!is_public("{}", None) && !is_public("", None));
        for (bits, acl, policy) in
            [(0, true, true), (1, true, true), (2, false, true), (4, true, true), (8, false, false)]
        {
            assert_eq!(is_public(&by_acl, Some(&[1, bits])), acl, "{bits}");
            assert_eq!(is_public(&by_policy, Some(&[1, bits])), policy, "{bits}");
        }
        for corrupt in [&b""[..], &[1], &[2, 0], &[1, 16], &[1, 0, 0]] {
            assert!(!is_public(&by_policy, Some(corrupt)), "{corrupt:?}");
        }
        assert!(of_bucket("b", &BucketRecord::default()).is_none());
    }

    #[test]
    fn block_is_read_back() {
        let parts = [
            AccessBlock::PUBLIC_ACLS,
            AccessBlock::IGNORED_ACLS,
            AccessBlock::PUBLIC_POLICY,
            AccessBlock::RESTRICTED,
        ];
        for bits in 0..16_u8 {
            let block = AccessBlock::new(parts.map(|part| (part, bits & part != 0)));
            assert_eq!(AccessBlock::of(&bucket("", Some(&block.encode()))), Some(block));
            assert_eq!(block.0, bits);
        }
    }
}
