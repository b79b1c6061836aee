//! Programs and libraries of Linux (ELF): the versions of symbols that they need of other libraries.

/// The type of the section that lists needed versions (`SHT_GNU_verneed`).
const VERSIONS_NEEDED: u32 = 0x6fff_fffe;

/// The versions that a program or library needs, such as `GLIBC_2.17`, with the library of each, such as `libc.so.6`;
/// `None` if the bytes are no ELF file of 64 bits and little-endian.
pub fn needed_versions(bytes: &[u8]) -> Option<Vec<(String, String)>> {
    if bytes.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let file = Elf(bytes);
    let (headers, size, count) = (file.u64(40)?, file.u16(58)?.into(), usize::from(file.u16(60)?));
    let header = |number: usize| headers.checked_add(number.checked_mul(size)?);
    let mut found = Vec::new();
    for section in (0..count).filter_map(header) {
        if file.u32(section.checked_add(4)?)? != VERSIONS_NEEDED {
            continue;
        }
        let names = file.u64(header(file.u32(section + 40)?.try_into().ok()?)?.checked_add(24)?)?;
        // Both lists have the distance to the next entry in each entry; it is zero in the last.
        let mut library = file.u64(section + 24)?;
        loop {
            let library_name = file.text(names.checked_add(file.u32(library + 4)?.try_into().ok()?)?)?;
            let mut version = library.checked_add(file.u32(library + 8)?.try_into().ok()?)?;
            loop {
                let name = file.text(names.checked_add(file.u32(version + 8)?.try_into().ok()?)?)?;
                found.push((library_name.clone(), name));
                match usize::try_from(file.u32(version + 12)?).ok()? {
                    0 => break,
                    distance => version = version.checked_add(distance)?,
                }
            }
            match usize::try_from(file.u32(library + 12)?).ok()? {
                0 => break,
                distance => library = library.checked_add(distance)?,
            }
        }
    }
    Some(found)
}

/// The needed versions of glibc above this one (`2.17` is `(2, 17)`).
pub fn newer_than(versions: &[(String, String)], (major, minor): (u32, u32)) -> Vec<String> {
    let is_newer = |name: &str| {
        let Some(number) = name.strip_prefix("GLIBC_") else { return false };
        let mut parts = number.split('.').map(|part| part.parse::<u32>().unwrap_or(u32::MAX));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) > (major, minor)
    };
    let mut newer: Vec<String> = versions
        .iter()
        .filter(|(_, name)| is_newer(name))
        .map(|(library, name)| format!("{name} of {library}"))
        .collect();
    newer.sort();
    newer
}

/// The bytes of a file; a read past its end is `None`.
struct Elf<'f>(&'f [u8]);

impl Elf<'_> {
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    fn u16(&self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    fn u32(&self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    /// A place in the file.
    fn u64(&self, at: usize) -> Option<usize> {
        self.array(at).map(u64::from_le_bytes)?.try_into().ok()
    }

    fn text(&self, at: usize) -> Option<String> {
        let text = self.0.get(at..)?.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_needs_versions_of_its_c_library() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let versions = needed_versions(&bytes).unwrap();
        assert!(
            versions.iter().any(|(library, name)| library == "libc.so.6" && name.starts_with("GLIBC_2."))
        );
        assert!(!newer_than(&versions, (2, 1)).is_empty() && newer_than(&versions, (99, 0)).is_empty());
    }

    #[test]
    fn other_files_and_cut_programs_have_no_versions() {
        assert_eq!(needed_versions(b"#!/bin/sh\necho\n"), None);
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(needed_versions(&bytes[..bytes.len().min(4096)]), None);
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let versions = ["GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.18", "GLIBC_2.4", "GCC_4.2.0", "GLIBC_PRIVATE"]
            .map(|name| ("libc.so.6".to_owned(), name.to_owned()));
        assert_eq!(newer_than(&versions, (2, 17)), ["GLIBC_2.18 of libc.so.6", "GLIBC_PRIVATE of libc.so.6"]);
    }
}
