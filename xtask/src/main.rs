//! `cargo xtask`: test, fuzz, bench.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool for developers: what it has to say goes to the terminal"
)]

use std::path::PathBuf;
use std::process::ExitCode;

use xtask::changed_packages::ChangedPackages;
use xtask::workspace::{Failure, Workspace};
use xtask::{
    bench, clients, first_hour, fuzz, manylinux, python, redis, repeat_tests, s3, slurm, soak, test, tidy,
};

const HELP: &str = "\
cargo xtask COMMAND

  test                      all that must hold before a change lands; its steps:
                            format, tidy, lint, docs, build, environment, tests, processes, simulation, redis, s3, slurm, python
       --only STEP…         only these steps
       --changed [COMMIT]   only what differs from COMMIT (default: HEAD) can touch, by the dependency graph
       --record             writes where the time went into docs/testing.md
  again NAME…               the tests whose names contain NAME, again and again, beside busy processes
       --times N            how often each (default: 20)
       --beside N           beside how many (default: 2)
       --record             writes how it went into docs/testing-load.md
  soak [--hours N]          searches for hours (default: 8) in turn: fresh seeds, planted bugs, fuzz, kills, clients;
                            keeps what it finds in target/soak, with the command that repeats it
       --step STEP          only this step: seeds, node-seeds, plants, engine, model, fuzz, processes, redis, slurm, clients
  clients [NAME]            the wide set of outside clients, in the versions of suites/environment.toml, against nodes
  first-hour                types the guides of new users line by line on a pseudo-terminal; prints a row for each
  tidy                      only the project's rules: crate floors, dependencies, unsafe, file lengths, links, …
  mutants                   writes docs/planted-bugs.md from the declarations of planted bugs and tidy/mutants.toml
  redis                     only redis-cli and redis-py against nodes, and the guide of Redis
  s3                        only boto3 against a gateway of S3
  slurm                     only the nodes inside jobs of a Slurm, and the guide's job script
  python                    only the Python package: builds the wheel, installs it in target/python, tries it
  wheel                     the Python package as a wheel, in release, with the program in it; says where it is
       --python VERSION     for this version only, such as 3.9 or 3.10 (otherwise: for 3.11 and all later ones)
       --dev                not optimized: built sooner
       --manylinux          for every Linux with glibc 2.17 or later; tries the wheel in an environment of its own
  fuzz [TARGET]             fuzz one target, or all of them one after the other
       --seconds N          for how long each (default: 60)
       --replay FILE        run one input instead: a crash in fuzz/artifacts, a seed in fuzz/corpus
  bench [NAME [ARGS…]]      run the benchmark bench/NAME beside its peers, in release; ARGS go to it
       --record             keeps the results in bench/results/NAME.json
  bench report              writes the results that are kept into docs/performance.md
  help                      this text

Outside programs are installed once, in $ZEROHOP_KEPT, else in the folder zerohop of the user's cache.
To run some tests only, use cargo itself: cargo test -p zerohop-engine disk::
CONTRIBUTING.md has the rest.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["test", rest @ ..] => {
            Workspace::find().and_then(|workspace| test::run(&workspace, &test_arguments(&workspace, rest)?))
        }
        ["again", rest @ ..] => {
            again_arguments(rest).and_then(|task| repeat_tests::run(&Workspace::find()?, &task))
        }
        ["soak", rest @ ..] => soak_arguments(rest).and_then(|task| soak::run(&Workspace::find()?, &task)),
        ["clients", names @ ..] => Workspace::find().and_then(|workspace| clients::run(&workspace, names)),
        ["first-hour"] => Workspace::find().and_then(|workspace| first_hour::run(&workspace)),
        ["tidy"] => {
            Workspace::find().and_then(|workspace| tidy::run(&workspace)).map(|summary| println!("{summary}"))
        }
        ["mutants"] => Workspace::find().and_then(|workspace| tidy::plants::run(&workspace)),
        ["fuzz", rest @ ..] => fuzz_arguments(rest)
            .and_then(|(target, task)| fuzz::run(&Workspace::find()?, target.as_deref(), &task)),
        ["redis"] => Workspace::find()
            .and_then(|workspace| redis::run(&workspace))
            .map(|summary| println!("{summary}")),
        ["s3"] => {
            Workspace::find().and_then(|workspace| s3::run(&workspace)).map(|summary| println!("{summary}"))
        }
        ["slurm"] => Workspace::find()
            .and_then(|workspace| slurm::run(&workspace))
            .map(|summary| println!("{summary}")),
        ["python"] => Workspace::find()
            .and_then(|workspace| python::run(&workspace))
            .map(|summary| println!("{summary}")),
        ["wheel", rest @ ..] => wheel_arguments(rest)
            .and_then(|task| {
                let workspace = Workspace::find()?;
                if task.is_portable {
                    manylinux::wheel(&workspace, &task)
                } else {
                    python::wheel(&workspace, &task)
                }
            })
            .map(|wheel| println!("{}", wheel.display())),
        ["bench", rest @ ..] => Workspace::find().and_then(|workspace| bench::run(&workspace, rest)),
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

/// Parses the arguments of `test`.
fn test_arguments(workspace: &Workspace, words: &[&str]) -> Result<test::TestSelection, Failure> {
    match words {
        [] => Ok(test::TestSelection::default()),
        ["--only", steps @ ..] if !steps.is_empty() => Ok(test::TestSelection {
            steps: steps.iter().map(|one| (*one).to_owned()).collect(),
            ..test::TestSelection::default()
        }),
        ["--record"] => Ok(test::TestSelection { is_recorded: true, ..test::TestSelection::default() }),
        ["--changed"] => test_arguments(workspace, &["--changed", "HEAD"]),
        ["--changed", base] if !base.starts_with('-') => Ok(test::TestSelection {
            changed: Some(ChangedPackages::since(workspace, base)?),
            ..test::TestSelection::default()
        }),
        other => Err(usage(&format!("`{}` means nothing to test", other.join(" ")))),
    }
}

/// Parses the arguments of `again`.
fn again_arguments(words: &[&str]) -> Result<repeat_tests::RepeatTask, Failure> {
    let mut task = repeat_tests::RepeatTask { names: Vec::new(), times: 20, beside: 2, is_recorded: false };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--times" => task.times = number("--times", words.next())?,
            "--beside" => task.beside = number("--beside", words.next())?,
            "--record" => task.is_recorded = true,
            name if !name.starts_with('-') => task.names.push(name.to_owned()),
            other => return Err(usage(&format!("`{other}` means nothing to again"))),
        }
    }
    if task.names.is_empty() {
        Err(usage("again wants the name of a test, or a part of it"))
    } else {
        Ok(task)
    }
}

/// Parses the arguments of `soak`.
fn soak_arguments(words: &[&str]) -> Result<soak::SoakTask, Failure> {
    let mut task = soak::SoakTask::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--hours" => task.hours = number("--hours", words.next())?,
            "--step" => task.step = words.next().map(|step| (*step).to_owned()),
            other => return Err(usage(&format!("`{other}` means nothing to soak"))),
        }
    }
    Ok(task)
}

/// Parses the arguments of `wheel`.
fn wheel_arguments(words: &[&str]) -> Result<python::WheelTask, Failure> {
    let mut task = python::WheelTask::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--python" => {
                let version = words.next().ok_or_else(|| usage("--python wants a version, such as 3.9"))?;
                task.version = Some((*version).to_owned());
            }
            "--dev" => task.is_dev = true,
            "--manylinux" => task.is_portable = true,
            other => return Err(usage(&format!("`{other}` means nothing to wheel"))),
        }
    }
    Ok(task)
}

fn number<N: std::str::FromStr>(option: &str, word: Option<&&str>) -> Result<N, Failure> {
    let word = word.ok_or_else(|| usage(&format!("{option} wants a value")))?;
    word.parse().map_err(|_| usage(&format!("{option} wants a number, not `{word}`")))
}

/// Parses the arguments of `fuzz`.
fn fuzz_arguments(words: &[&str]) -> Result<(Option<String>, fuzz::FuzzTask), Failure> {
    let mut target = None;
    let mut task = fuzz::FuzzTask::Search { seconds: fuzz::SECONDS_BY_HAND };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| usage(&format!("{word} wants a value")));
        match *word {
            "--seconds" => {
                let seconds = value()?;
                let seconds = seconds
                    .parse()
                    .map_err(|_| usage(&format!("--seconds wants a whole number, not `{seconds}`")))?;
                task = fuzz::FuzzTask::Search { seconds };
            }
            "--replay" => task = fuzz::FuzzTask::Replay { input: PathBuf::from(value()?) },
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
    fn again_takes_names_and_options_in_any_order() {
        let task = again_arguments(&["kill", "--times", "30", "drop", "--record", "--beside", "0"]).unwrap();
        assert_eq!(task.names, ["kill", "drop"]);
        assert_eq!((task.times, task.beside, task.is_recorded), (30, 0, true));
        for words in [&[][..], &["--times"], &["a", "--times", "often"], &["a", "--twice"]] {
            assert!(again_arguments(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn test_refuses_invalid_arguments() {
        let workspace = Workspace::find().unwrap();
        for words in [&["--fast"][..], &["--only"], &["--changed", "--only"]] {
            assert!(test_arguments(&workspace, words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn wheel_takes_a_version_of_python_and_a_kind() {
        let none = python::WheelTask::default();
        assert_eq!(wheel_arguments(&[]).unwrap(), none);
        let old = python::WheelTask { version: Some("3.9".to_owned()), is_dev: true, is_portable: false };
        assert_eq!(wheel_arguments(&["--dev", "--python", "3.9"]).unwrap(), old);
        let portable = python::WheelTask { is_portable: true, ..none.clone() };
        assert_eq!(wheel_arguments(&["--manylinux"]).unwrap(), portable);
        assert_eq!(wheel_arguments(&["--dev"]).unwrap(), python::WheelTask { is_dev: true, ..none });
        assert!(wheel_arguments(&["--python"]).is_err() && wheel_arguments(&["3.9"]).is_err());
    }

    #[test]
    fn soak_takes_hours_and_a_step() {
        let task = soak_arguments(&["--hours", "0.5", "--step", "fuzz"]).unwrap();
        assert_eq!((task.hours, task.step.as_deref()), (0.5, Some("fuzz")));
        assert!(soak_arguments(&["--hours", "long"]).is_err());
    }

    #[test]
    fn fuzz_takes_its_options_in_any_order() {
        let (target, task) = fuzz_arguments(&["--seconds", "5", "frame"]).unwrap();
        assert_eq!(target.as_deref(), Some("frame"));
        assert_eq!(task, fuzz::FuzzTask::Search { seconds: 5 });
        let (target, task) = fuzz_arguments(&["frame", "--replay", "x/crash-1"]).unwrap();
        assert_eq!(target.as_deref(), Some("frame"));
        assert_eq!(task, fuzz::FuzzTask::Replay { input: PathBuf::from("x/crash-1") });
    }

    #[test]
    fn fuzz_refuses_invalid_arguments() {
        for words in [&["--seconds"][..], &["--seconds", "soon"], &["--sceonds", "5"], &["frame", "entry"]] {
            assert!(fuzz_arguments(words).is_err(), "{words:?}");
        }
    }
}
