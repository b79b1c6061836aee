//! Tables for humans, JSON for programs.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program prints its results")]

use serde::Serialize;

use crate::evenness::Spread;
use crate::speed::Speed;

pub(crate) fn complain(message: &str) {
    eprintln!("bench-hashes: {message}");
}

pub(crate) fn json(speeds: &[Speed], spreads: &[Spread]) {
    #[derive(Serialize)]
    struct Report<'a> {
        speed: &'a [Speed],
        evenness: &'a [Spread],
    }
    match serde_json::to_string_pretty(&Report { speed: speeds, evenness: spreads }) {
        Ok(text) => println!("{text}"),
        Err(error) => complain(&format!("cannot write JSON: {error}")),
    }
}

pub(crate) fn tables(speeds: &[Speed], spreads: &[Spread]) {
    println!("Nanoseconds per hash: median (lowest to highest round)\n");
    println!("| hash | key bytes | median | range |\n| --- | ---: | ---: | --- |");
    for row in speeds {
        let (hash, bytes) = (row.hash, row.key_bytes);
        println!(
            "| {hash} | {bytes} | {:.1} | {:.1} to {:.1} |",
            row.median_ns, row.lowest_ns, row.highest_ns
        );
    }
    println!(
        "\nEvenness: chi-square / degrees of freedom (1 is chance), normal deviate, p, fullest / mean;\nseeded functions over several seeds\n"
    );
    println!("| keys | hash | partitions | seeds | ratio | deviate | p | fullest | verdict |");
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |");
    for row in spreads {
        let Spread { hash, key_set, keys, partitions, seeds, ratio, deviate, p, fullest, verdict } = row;
        println!(
            "| {key_set} ({keys}) | {hash} | {partitions} | {seeds} | {ratio:.3} | {deviate:+.1} | {p:.3} | \
             {fullest:.2} | {verdict} |"
        );
    }
}
