//! The syntax of commands in blocks marked `text` of the documents: each command and each option
//! must exist.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::root;

/// A line of a block with the syntax of a command, including continuation lines.
#[derive(Debug, PartialEq, Eq)]
struct Synopsis {
    /// The number of the line, from 1.
    line: usize,
    /// The name of the command: `keyspace create`.
    words: Vec<String>,
    options: Vec<String>,
}

/// All synopses of a document. Text behind two spaces is an explanation.
fn synopses(guide: &str) -> Vec<Synopsis> {
    let mut found: Vec<Synopsis> = Vec::new();
    let mut fence: Option<bool> = None;
    let mut is_open = false;
    for (at, line) in guide.lines().enumerate() {
        let text = line.trim();
        if let Some(mark) = text.strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(mark == "text") };
            is_open = false;
            continue;
        }
        if fence != Some(true) {
            continue;
        }
        let text = text.split("  ").next().unwrap_or_default().split(" #").next().unwrap_or_default();
        let words = text.strip_prefix("zerohop ");
        if let Some(words) = words {
            let is_word = |word: &&str| {
                word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
                    && word.starts_with(|c: char| c.is_ascii_lowercase())
            };
            let words = words.split(' ').take_while(is_word).map(str::to_owned).collect();
            found.push(Synopsis { line: at + 1, words, options: Vec::new() });
            is_open = true;
        } else if !line.starts_with(' ') {
            is_open = false;
        }
        if is_open && let Some(synopsis) = found.last_mut() {
            synopsis.options.extend(options(text));
        }
    }
    found
}

/// The options of a text: words that begin with two dashes.
fn options(text: &str) -> impl Iterator<Item = String> + use<'_> {
    let words = text.split(|c: char| !c.is_ascii_lowercase() && c != '-');
    words.filter(|word| word.len() > 2 && word.starts_with("--")).map(str::to_owned)
}

/// The command or options of a synopsis that do not exist.
fn wrong(synopsis: &Synopsis, help: impl Fn(&[String]) -> Option<String>) -> Option<String> {
    let Some(help) = help(&synopsis.words) else {
        return Some(format!("{}: there is no `zerohop {}`", synopsis.line, synopsis.words.join(" ")));
    };
    let known: Vec<String> = options(&help).collect();
    let unknown = synopsis.options.iter().find(|option| !known.contains(option))?;
    Some(format!("{}: `zerohop {}` has no option {unknown}", synopsis.line, synopsis.words.join(" ")))
}

/// All documents in the sources.
fn documents() -> Vec<PathBuf> {
    let mut found = vec![root().join("README.md"), root().join("python/README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|end| end == "md") => found.push(path),
                false => {}
            }
        }
    }
    found
}

fn help(words: &[String]) -> Option<String> {
    let mut command = Command::new(Path::new(env!("CARGO_BIN_EXE_zerohop")));
    let output = command.args(words).arg("--help").output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

#[test]
fn documented_commands_and_options_exist() {
    let (mut count, mut problems) = (0, Vec::new());
    for path in documents() {
        let found = synopses(&std::fs::read_to_string(&path).unwrap());
        count += found.len();
        let complaints = found.iter().filter_map(|one| wrong(one, help));
        problems.extend(complaints.map(|complaints| format!("{}:{complaints}", path.display())));
    }
    assert_eq!(problems, [""; 0]);
    assert!(count > 30, "only {count} descriptions of commands were found");
}

#[test]
fn unknown_command_or_option_in_synopsis_is_reported() {
    let guide = "```text\nzerohop kv lookup KEY [--all]\n               [--no-such N]    --other\nelsewhere --ignored\n\
                 zerohop nothing NAME\n```\n```sh\nzerohop kv --x\n```\n";
    let found = synopses(guide);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].options, ["--all", "--no-such"]);
    let help = |words: &[String]| (words[0] == "kv").then(|| "  --all, --other".to_owned());
    let complaints: Vec<String> = found.iter().filter_map(|one| wrong(one, help)).collect();
    assert_eq!(
        complaints,
        ["2: `zerohop kv lookup` has no option --no-such", "5: there is no `zerohop nothing`"]
    );
}
