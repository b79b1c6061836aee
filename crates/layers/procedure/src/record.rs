//! Records and their bytes.
//!
//! The first byte of each record is its format. A decoder takes untrusted bytes and never panics.

use zerohop_base::bytes::Reader;

/// The format of all records that have only one.
pub const FORMAT: u8 = 1;

/// The most elements of a list in a record.
pub const LIST_MAX: usize = 1 << 20;

/// A record with a format.
pub trait Record: Sized {
    /// Its bytes.
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.format()];
        self.write(&mut bytes);
        bytes
    }

    /// Its format.
    fn format(&self) -> u8 {
        FORMAT
    }

    /// The record that `bytes` have.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let format = reader.u8()?;
        let record = Self::read(format, &mut reader)?;
        reader.is_at_end().then_some(record)
    }

    /// Appends the fields.
    fn write(&self, into: &mut Vec<u8>);

    /// Reads the fields of a format.
    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self>;
}

/// Refuses all formats but that of records with only one.
pub fn only_format(format: u8) -> Option<()> {
    (format == FORMAT).then_some(())
}

/// Appends a length (4) and bytes.
///
/// # Panics
/// If there are 4 GiB or more.
pub fn write_bytes(into: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("fields are below 4 GiB");
    into.extend_from_slice(&length.to_le_bytes());
    into.extend_from_slice(bytes);
}

/// Reads what [`write_bytes`] appends.
pub fn read_bytes(reader: &mut Reader<'_>) -> Option<Vec<u8>> {
    let length = reader.u32()? as usize;
    reader.bytes(length).map(<[u8]>::to_vec)
}

/// Reads bytes that are a text.
pub fn read_text(reader: &mut Reader<'_>) -> Option<String> {
    String::from_utf8(read_bytes(reader)?).ok()
}

/// Reads a byte that is 0 or 1.
pub fn read_flag(reader: &mut Reader<'_>) -> Option<bool> {
    match reader.u8()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// Appends a count (4) and elements.
///
/// # Panics
/// If there are 2^32 elements or more.
pub fn write_list<T>(into: &mut Vec<u8>, list: &[T], mut write: impl FnMut(&mut Vec<u8>, &T)) {
    let count = u32::try_from(list.len()).expect("lists are below 2^32 elements");
    into.extend_from_slice(&count.to_le_bytes());
    list.iter().for_each(|element| write(into, element));
}

/// Reads what [`write_list`] appends. An element has at least `bytes_min` bytes.
pub fn read_list<'a, T>(
    reader: &mut Reader<'a>,
    bytes_min: usize,
    read: impl FnMut(&mut Reader<'a>) -> Option<T>,
) -> Option<Vec<T>> {
    let count = reader.count(bytes_min, LIST_MAX)?;
    let mut read = read;
    (0..count).map(|_| read(reader)).collect()
}

/// Appends whether there is a value (1), and the value.
pub fn write_option<T>(into: &mut Vec<u8>, value: Option<&T>, write: impl FnOnce(&mut Vec<u8>, &T)) {
    into.push(u8::from(value.is_some()));
    if let Some(value) = value {
        write(into, value);
    }
}

/// Reads what [`write_option`] appends.
pub fn read_option<'a, T>(
    reader: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Option<T>,
) -> Option<Option<T>> {
    if read_flag(reader)? { read(reader).map(Some) } else { Some(None) }
}
