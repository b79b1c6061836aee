//! Any bytes as the history of changes that comes with a snapshot: refused, or read and written back.

use zerohop_partition::InheritedHistory;

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    let Some(history) = InheritedHistory::decode(bytes) else { return };
    let encoded = history.encode();
    let again = InheritedHistory::decode(&encoded).expect("was encoded so");
    assert_eq!(again.encode(), encoded);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_inputs_are_histories() {
        for valid in [
            &include_bytes!("../../../fuzz/corpus/change_history/two_changes")[..],
            include_bytes!("../../../fuzz/corpus/change_history/empty"),
        ] {
            assert_eq!(InheritedHistory::decode(valid).expect("is one").encode(), valid);
        }
    }
}
