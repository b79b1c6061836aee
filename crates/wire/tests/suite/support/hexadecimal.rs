//! Bytes as the golden vectors have them.

pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(16) {
        for group in line.chunks(4) {
            for byte in group {
                text.push_str(&format!("{byte:02x} "));
            }
            text.push(' ');
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}
