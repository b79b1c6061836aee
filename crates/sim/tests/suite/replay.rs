//! A seed can be repeated.

use zerohop_sim::{LineRetention, run, run_twice};

#[test]
fn seed_replays_identically_with_any_trace_retention() {
    let played = run_twice(3);
    assert_eq!(played.violations, []);
    let kept = run(3, LineRetention::All);
    assert_eq!(kept.digest, played.digest);
    assert!(kept.lines.len() as u64 == kept.coverage.events && kept.coverage.events > 1_000);
    assert_ne!(run(4, LineRetention::Nothing).digest, played.digest);
}
