//! The part of a header's attributes that the client itself uses: whether the blob is finished, and where its contents are.

use bytes::Bytes;
use zerohop_wire::blob::BlobStamp;
use zerohop_wire::contents::{Contents, STAGED_PREFIX, Slot};

use super::CachedHeader;

/// The attributes of an unfinished blob begin with this mark.
pub(crate) const UNFINISHED: &[u8] = b"\0zerohop unfinished\0";

impl CachedHeader {
    /// Whether the blob is complete.
    pub(crate) fn is_finished(&self) -> bool {
        !self.attributes.starts_with(UNFINISHED)
    }

    /// The attributes as the blob's owner has set them.
    pub(crate) fn own_attributes(&self) -> Bytes {
        own_attributes(&self.attributes).0
    }

    /// Combines the owner's attributes with the header's reference to the contents.
    pub(crate) fn attributes_with_contents(&self, own: &[u8]) -> Vec<u8> {
        let mut marked = Vec::new();
        if let Some(contents) = reference_in(&self.attributes) {
            contents.encode(&mut marked);
        }
        marked.extend_from_slice(own);
        marked
    }

    /// The name in the keys of the chunks, for the blob of this name.
    pub(crate) fn contents_name<'a>(&'a self, name: &'a [u8]) -> &'a [u8] {
        contents_of(&self.attributes, name, self.stamp).0
    }

    /// The blob stamp of the chunks.
    pub(crate) fn chunk_stamp(&self) -> BlobStamp {
        self.in_chunks(self.stamp)
    }

    /// Converts a fence of the header into that of the chunks.
    pub(crate) fn in_chunks(&self, stamp: BlobStamp) -> BlobStamp {
        contents_of(&self.attributes, b"", stamp).1
    }

    /// The slot of the contents.
    pub(crate) fn slot(&self, name: &[u8]) -> Slot {
        Slot::of(self.contents_name(name), name)
    }

    /// Whether these are the remains of contents that were replaced. No writer needs them.
    pub(crate) fn is_remains(&self) -> bool {
        !self.is_finished() && reference_in(&self.attributes).is_some()
    }
}

/// The reference to contents under another name, if the attributes have one.
fn reference_in(attributes: &[u8]) -> Option<Contents<'_>> {
    let rest = attributes.strip_prefix(UNFINISHED).unwrap_or(attributes);
    Contents::decode(rest).map(|(contents, _)| contents)
}

/// The name in the keys of a blob's chunks, and the fence of its header as the chunks have it.
pub(crate) fn contents_of<'a>(
    attributes: &'a [u8],
    name: &'a [u8],
    stamp: BlobStamp,
) -> (&'a [u8], BlobStamp) {
    match reference_in(attributes) {
        None => (name, stamp),
        Some(Contents { name, stamp: first }) => {
            let generation = first.generation + stamp.generation;
            (name, BlobStamp { id: first.id, generation })
        }
    }
}

/// The attributes as the blob's owner has set them, and whether the blob is finished.
pub(crate) fn own_attributes(attributes: &Bytes) -> (Bytes, bool) {
    let rest = attributes.strip_prefix(UNFINISHED);
    let is_finished = rest.is_none();
    let own = rest.unwrap_or(attributes);
    let own = Contents::decode(own).map_or(own, |(_, own)| own);
    (attributes.slice_ref(own), is_finished)
}

/// Whether this is a name for staged contents, which listings leave out.
pub(crate) fn is_staged(name: &[u8]) -> bool {
    name.starts_with(STAGED_PREFIX)
}

#[cfg(test)]
mod tests {
    use zerohop_wire::contents::staged_name;

    use super::*;

    #[test]
    fn contents_reference_raises_chunk_generation_and_is_hidden() {
        let mut attributes = Vec::new();
        let place = staged_name(b"n", Slot::FOR_CONTENTS[1]);
        let contents = Contents { name: &place, stamp: BlobStamp { id: 7, generation: 2 } };
        contents.encode(&mut attributes);
        attributes.extend_from_slice(b"own");
        let header = |attributes: &[u8]| CachedHeader {
            version: zerohop_wire::ids::Timestamp(1),
            stamp: BlobStamp { id: 9, generation: 3 },
            size: 0,
            pending_truncation_end: 0,
            staged_extension: zerohop_wire::blob::StagedExtensionState::Not,
            chunk_bits: 12,
            attributes: Bytes::copy_from_slice(attributes),
        };
        let known = header(&attributes);
        assert_eq!(known.chunk_stamp(), BlobStamp { id: 7, generation: 5 });
        assert_eq!((known.contents_name(b"n"), known.slot(b"n")), (&place[..], Slot::FOR_CONTENTS[1]));
        assert_eq!((&known.own_attributes()[..], known.is_finished()), (&b"own"[..], true));
        assert_eq!(known.attributes_with_contents(b"own"), attributes);
        let unfinished = header(&[UNFINISHED, &attributes].concat());
        assert_eq!((&unfinished.own_attributes()[..], unfinished.is_finished()), (&b"own"[..], false));
        assert_eq!(unfinished.chunk_stamp(), known.chunk_stamp());
        let plain = header(b"own");
        assert_eq!((plain.chunk_stamp(), plain.slot(b"n")), (plain.stamp, Slot::DIRECT));
        assert_eq!(
            (plain.contents_name(b"n"), plain.attributes_with_contents(b"own")),
            (&b"n"[..], b"own".to_vec())
        );
    }
}
