//! The options of `zerohop node` for its partitions.

use clap::Args;
use zerohop_server::PartitionLimits;

use crate::common::quantity;

/// The lowest bulk copy rate: a receiver without data for seconds begins again.
const COPY_RATE_MIN: u64 = 1 << 20;
/// The lowest size at which regions are split: each region costs memory in every client, and a split copies its log.
const REGION_SIZE_MIN: u64 = 1 << 20;

#[derive(Args, Debug)]
pub(super) struct PartitionArguments {
    /// The maximum rate, in bytes per second, at which the node sends partitions that move or are rebuilt. It is at
    /// least 1MiB [default: as fast as possible without delaying requests].
    #[arg(long, value_name = "BYTES", value_parser = copy_rate)]
    copy_rate: Option<u64>,
    /// Splits each region of an ordered keyspace that has more data than this, from 1MiB on; `never` leaves it to `region
    /// split`. The setting of the node with the region's primary counts [default: 256MiB].
    #[arg(long, env = "ZEROHOP_REGION_SIZE", value_name = "BYTES", value_parser = region_size)]
    region_size: Option<RegionSize>,
}

/// The size at which regions are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RegionSize {
    Never,
    Bytes(u64),
}

impl PartitionArguments {
    pub(super) fn limits(&self) -> PartitionLimits {
        let default = PartitionLimits::default();
        PartitionLimits {
            copy_bytes_per_s: self.copy_rate.unwrap_or(default.copy_bytes_per_s),
            region_bytes: match self.region_size {
                None => default.region_bytes,
                Some(RegionSize::Never) => None,
                Some(RegionSize::Bytes(bytes)) => Some(bytes),
            },
        }
    }
}

/// For clap.
fn copy_rate(text: &str) -> Result<u64, String> {
    let bytes = quantity::bytes(text)?;
    if bytes < COPY_RATE_MIN { Err("1MiB a second is the least".to_owned()) } else { Ok(bytes) }
}

/// For clap.
fn region_size(text: &str) -> Result<RegionSize, String> {
    if text == "never" {
        return Ok(RegionSize::Never);
    }
    match quantity::bytes(text)? {
        bytes if bytes < REGION_SIZE_MIN => Err("1MiB is the least; `never` splits no region".to_owned()),
        bytes => Ok(RegionSize::Bytes(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_regions_begin_at_1_mib() {
        assert_eq!(region_size("1MiB"), Ok(RegionSize::Bytes(1 << 20)));
        assert_eq!(region_size("never"), Ok(RegionSize::Never));
        assert!(region_size("1023K").unwrap_err().contains("never"));
        assert!(region_size("0").is_err() && region_size("-1").is_err() && region_size("").is_err());
    }
}
