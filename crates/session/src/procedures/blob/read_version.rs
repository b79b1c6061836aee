//! The text form of a read version, so that another process can make a write that depends on it.
//!
//! ```text
//! zerohop-seen 1
//! 1763770000123 2 5000     id, generation, and where the blob ended, if the read came to its end; else `-`
//! 0 1763770000456          a chunk, and its version; zero: there was none
//! ```

use std::fmt;

use zerohop_wire::blob::BlobStamp;
use zerohop_wire::ids::Timestamp;

use super::BlobReadVersion;

const FIRST_LINE: &str = "zerohop-seen 1";

impl BlobReadVersion {
    /// The blob's id, and its generation: see [`BlobInfo`](super::BlobInfo).
    #[must_use]
    pub fn blob(&self) -> (Timestamp, u64) {
        (Timestamp(self.stamp.id), self.stamp.generation)
    }

    /// The chunks that were read, by number, and their versions; zero: the chunk was absent.
    #[must_use]
    pub fn chunks(&self) -> &[(u64, Timestamp)] {
        &self.chunks
    }

    /// Parses the output of `Display`; `None` if the text is invalid.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (mut lines, mut seen) = (text.lines(), None);
        if lines.next() != Some(FIRST_LINE) {
            return None;
        }
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match (&mut seen, &words[..]) {
                (None, [id, generation, size]) => {
                    let stamp = BlobStamp { id: id.parse().ok()?, generation: generation.parse().ok()? };
                    let size = if *size == "-" { None } else { Some(size.parse().ok()?) };
                    seen = Some(Self { stamp, size, chunks: Vec::new() });
                }
                (Some(seen), [number, version]) => {
                    seen.chunks.push((number.parse().ok()?, Timestamp(version.parse().ok()?)));
                }
                _ => return None,
            }
        }
        seen
    }
}

impl fmt::Display for BlobReadVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FIRST_LINE}\n{} {} ", self.stamp.id, self.stamp.generation)?;
        match self.size {
            Some(size) => writeln!(f, "{size}")?,
            None => writeln!(f, "-")?,
        }
        self.chunks.iter().try_for_each(|(number, version)| writeln!(f, "{number} {}", version.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_version_round_trips_as_text_and_other_text_is_refused() {
        for (size, chunks) in
            [(None, vec![]), (Some(u64::MAX), vec![(0, Timestamp(7)), (u64::MAX, Timestamp::ZERO)])]
        {
            let seen = BlobReadVersion { stamp: BlobStamp { id: 3, generation: 9 }, size, chunks };
            assert_eq!(BlobReadVersion::parse(&seen.to_string()).as_ref(), Some(&seen));
        }
        for bad in [
            "",
            "zerohop-seen 1",
            "zerohop-seen 2\n1 2 3\n",
            "zerohop-seen 1\n1 2\n",
            "zerohop-seen 1\n1 2 3\n4\n",
        ] {
            assert_eq!(BlobReadVersion::parse(bad), None, "{bad}");
        }
    }
}
