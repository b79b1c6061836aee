//! The Python package has a method for each operation of the table, in the native module, for threads and for event loops.

use zerohop_record::FrameKind;
use zerohop_record::operations::{Query, WriteChange};

const NATIVE: &str = include_str!("../../../python/package/zerohop/_native.pyi");
const BLOCKING: &str = include_str!("../../../python/package/zerohop/_keyspace.py");
const ASYNC: &str = include_str!("../../../python/package/zerohop/aio.py");

/// The method of an operation in the native module, and in the two classes for users; `None`: the package has none.
fn method_of(kind: FrameKind) -> Option<(&'static str, &'static str)> {
    Some(match kind {
        FrameKind::LookupRange => ("values", "get_list"),
        FrameKind::Insert => ("insert", "set"),
        FrameKind::Remove => ("remove", "delete"),
        // Procedures of the client send these; methods of blobs use them.
        FrameKind::Confirm | FrameKind::ReadChunk | FrameKind::UpdateLock => return None,
        // The package has no method for these today.
        FrameKind::GetBit | FrameKind::CountBits | FrameKind::SetBit => return None,
        kind => (kind.text(), kind.text()),
    })
}

/// The text of a class: from its heading to the next.
fn class<'t>(text: &'t str, heading: &str) -> &'t str {
    let (_, from) = text.split_once(heading).unwrap_or_else(|| panic!("there is no `{heading}`"));
    from.split_once("\nclass ").map_or(from, |(class, _)| class)
}

#[test]
fn operations_of_the_table_have_methods_in_python() {
    let native = class(NATIVE, "\nclass NativeKeyspace:");
    let users = [class(BLOCKING, "\nclass Keyspace("), class(ASYNC, "\nclass Keyspace:")];
    for row in Query::TABLE.iter().chain(WriteChange::TABLE) {
        let Some((of_native, of_users)) = method_of(row.kind) else { continue };
        assert!(
            native.contains(&format!(" def {of_native}(")),
            "_native.pyi has no `{of_native}` for `{}`",
            row.kind
        );
        for class in users {
            assert!(
                class.contains(&format!(" def {of_users}(")),
                "a class has no `{of_users}` for `{}`",
                row.kind
            );
        }
    }
}
