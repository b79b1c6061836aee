//! The names of partitions on the command line: `KEYSPACE/PARTITION`.

use std::fmt;
use std::str::FromStr;

/// A partition of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartitionName {
    pub(crate) keyspace: String,
    pub(crate) partition: u32,
}

impl FromStr for PartitionName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = text.rsplit_once('/').and_then(|(keyspace, partition)| {
            let partition = partition.parse().ok()?;
            (!keyspace.is_empty()).then(|| PartitionName { keyspace: keyspace.to_owned(), partition })
        });
        named.ok_or_else(|| "write KEYSPACE/PARTITION, as in default/17".to_owned())
    }
}

impl fmt::Display for PartitionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.keyspace, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_named_by_keyspace_and_number() {
        let name: PartitionName = "papers/17".parse().unwrap();
        assert_eq!((name.keyspace.as_str(), name.partition), ("papers", 17));
        assert_eq!(name.to_string(), "papers/17");
        for bad in ["", "17", "papers/", "/17", "papers/x", "papers/-1"] {
            assert!(bad.parse::<PartitionName>().is_err(), "{bad}");
        }
    }
}
