//! `cargo xtask`: test, fuzz, bench.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool for developers: what it has to say goes to the terminal"
)]

use std::path::PathBuf;
use std::process::ExitCode;

use xtask::workshop::{Failure, Workshop};
use xtask::{bench, fuzz, python, redis, slurm, test, tidy};

const HELP: &str = "\
cargo xtask COMMAND

  test [--fast]             all that must hold before a change lands: format, lint, docs, tidy, tests and a short fuzz;
                            --fast leaves out the fuzz
       --only STEP…         only these steps of it, to go on where a run stopped
  tidy                      only the rules of the house: crate floors, dependencies, unsafe, file lengths, links, …
  redis                     only the clients of Redis that nobody here wrote, against a node
  slurm                     only the nodes inside jobs of a Slurm, and the guide's job script
  python                    only the Python package: builds the wheel, installs it in target/python, tries it
  wheel                     the Python package as a wheel, in release, with the program in it; says where it is
  fuzz [TARGET]             fuzz one target, or all of them one after the other
       --seconds N          for how long each (default: 60)
       --replay FILE        run one input instead: a crash in fuzz/artifacts, a seed in fuzz/corpus
  bench [NAME [ARGS…]]      run the benchmark bench/NAME beside its peers, in release; ARGS go to it
  help                      this text

To run some tests only, use cargo itself: cargo test -p zerohop-engine disk::
CONTRIBUTING.md tells the rest.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["test"] => Workshop::find().and_then(|shop| test::run(&shop, test::Extent::Full)),
        ["test", "--fast"] => Workshop::find().and_then(|shop| test::run(&shop, test::Extent::Fast)),
        ["test", "--only", steps @ ..] if !steps.is_empty() => {
            Workshop::find().and_then(|shop| test::run_only(&shop, steps))
        }
        ["tidy"] => Workshop::find().and_then(|shop| tidy::run(&shop)).map(|said| println!("{said}")),
        ["fuzz", rest @ ..] => fuzz_arguments(rest)
            .and_then(|(target, task)| fuzz::run(&Workshop::find()?, target.as_deref(), &task)),
        ["redis"] => Workshop::find().and_then(|shop| redis::run(&shop)).map(|said| println!("{said}")),
        ["slurm"] => Workshop::find().and_then(|shop| slurm::run(&shop)).map(|said| println!("{said}")),
        ["python"] => Workshop::find().and_then(|shop| python::run(&shop)).map(|said| println!("{said}")),
        ["wheel"] => Workshop::find()
            .and_then(|shop| python::wheel(&shop))
            .map(|wheel| println!("{}", wheel.display())),
        ["bench", rest @ ..] => Workshop::find().and_then(|shop| bench::run(&shop, rest)),
        ["help" | "--help" | "-h", ..] => {
            print!("{HELP}");
            Ok(())
        }
        [] => Err(usage("a command is missing")),
        other => Err(usage(&format!("`{}` is not a command", other.join(" ")))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Reads what follows `fuzz`.
fn fuzz_arguments(words: &[&str]) -> Result<(Option<String>, fuzz::Task), Failure> {
    let mut target = None;
    let mut task = fuzz::Task::Search { seconds: fuzz::SECONDS_BY_HAND };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| usage(&format!("{word} wants a value")));
        match *word {
            "--seconds" => {
                let seconds = value()?;
                let seconds = seconds
                    .parse()
                    .map_err(|_| usage(&format!("--seconds wants a whole number, not `{seconds}`")))?;
                task = fuzz::Task::Search { seconds };
            }
            "--replay" => task = fuzz::Task::Replay { input: PathBuf::from(value()?) },
            name if !name.starts_with('-') && target.is_none() => target = Some(name.to_owned()),
            other => return Err(usage(&format!("`{other}` means nothing to fuzz"))),
        }
    }
    Ok((target, task))
}

fn usage(what: &str) -> Failure {
    Failure::new(format!("{what}\n\n{HELP}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzz_takes_its_options_in_any_order() {
        let (target, task) = fuzz_arguments(&["--seconds", "5", "frame"]).unwrap();
        assert_eq!(target.as_deref(), Some("frame"));
        assert_eq!(task, fuzz::Task::Search { seconds: 5 });
        let (target, task) = fuzz_arguments(&["frame", "--replay", "x/crash-1"]).unwrap();
        assert_eq!(target.as_deref(), Some("frame"));
        assert_eq!(task, fuzz::Task::Replay { input: PathBuf::from("x/crash-1") });
    }

    #[test]
    fn fuzz_refuses_what_it_does_not_know() {
        for words in [&["--seconds"][..], &["--seconds", "soon"], &["--sceonds", "5"], &["frame", "entry"]] {
            assert!(fuzz_arguments(words).is_err(), "{words:?}");
        }
    }
}
