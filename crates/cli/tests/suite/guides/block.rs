//! The runnable blocks of a guide, and their commands.

use crate::guides::programs::{TEST, VARIABLE};

/// A command and the lines below it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GuideCommand {
    /// The first line of the command, from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
    /// `None`: the output is not given, and the command must succeed.
    pub(crate) prints: Option<Vec<String>>,
    /// Whether it is for Python's prompt.
    pub(crate) is_for_python: bool,
}

impl GuideCommand {
    fn shell(line: usize, text: impl Into<String>, prints: Option<Vec<String>>) -> GuideCommand {
        GuideCommand { line, text: text.into(), prints, is_for_python: false }
    }
}

/// The commands of all blocks marked `sh`, `console`, `python` or `rust`, in order.
pub(crate) fn commands(guide: &str) -> Vec<GuideCommand> {
    let mut commands = Vec::new();
    for (mark, block) in blocks(guide) {
        match mark {
            "sh" => commands.extend(listed(&block)),
            "console" => commands.extend(transcript(&block)),
            "python" => commands.extend(script(&block)),
            _ if is_rust(mark) => commands.extend(program(&block)),
            _ => {}
        }
    }
    commands
}

/// The same, and the examples at Python's prompt.
pub(crate) fn commands_and_examples(guide: &str) -> Vec<GuideCommand> {
    let mut commands = commands(guide);
    for (_, block) in blocks(guide).into_iter().filter(|(mark, _)| *mark == "python") {
        commands.extend(examples(&block));
    }
    commands.sort_by_key(|command| command.line);
    commands
}

/// The text of all blocks marked `rust`.
pub(crate) fn programs(guide: &str) -> Vec<String> {
    let rust = blocks(guide).into_iter().filter(|(mark, _)| is_rust(mark));
    rust.map(|(_, block)| text(&block)).collect()
}

/// Each block: its mark, and its lines with their numbers from 1.
fn blocks(guide: &str) -> Vec<(&str, Vec<(usize, &str)>)> {
    let mut blocks = Vec::new();
    let mut lines = guide.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        let Some(mark) = line.trim_start().strip_prefix("```") else { continue };
        let block = lines
            .by_ref()
            .map(|(at, line)| (at + 1, line))
            .take_while(|(_, line)| !line.trim_start().starts_with("```"))
            .collect();
        blocks.push((mark.trim(), block));
    }
    blocks
}

/// Whether a block is Rust, with any attributes for rustdoc (`rust,no_run`).
fn is_rust(mark: &str) -> bool {
    mark.split(',').next() == Some("rust")
}

fn text(block: &[(usize, &str)]) -> String {
    let lines: Vec<&str> = block.iter().map(|(_, line)| *line).collect();
    lines.join("\n")
}

/// A program in Rust, which is compiled into this test program: see `programs.rs`.
fn program(block: &[(usize, &str)]) -> Option<GuideCommand> {
    let run = format!("\"${VARIABLE}\" --exact {TEST} --nocapture");
    let text = format!("{run} <<'END OF PROGRAM'\n{}\nEND OF PROGRAM", text(block));
    block.first().map(|(line, _)| GuideCommand::shell(*line, text, None))
}

/// A program in Python, which must succeed. Interactive sessions (`>>>`) are tested with the
/// package itself, by `cargo xtask python`, and on a terminal by `cargo xtask first-hour`.
fn script(block: &[(usize, &str)]) -> Option<GuideCommand> {
    if block.first().is_some_and(|(_, line)| line.starts_with(">>>")) {
        return None;
    }
    let text = format!("python3 - <<'END OF SCRIPT'\n{}\nEND OF SCRIPT", text(block));
    block.first().map(|(line, _)| GuideCommand::shell(*line, text, None))
}

/// Examples behind `>>> `, with their further lines behind `... `, and their output.
fn examples(block: &[(usize, &str)]) -> Vec<GuideCommand> {
    let mut examples: Vec<GuideCommand> = Vec::new();
    for (line, text) in block {
        if let Some(text) = text.strip_prefix(">>> ") {
            let example = GuideCommand::shell(*line, text, Some(Vec::new()));
            examples.push(GuideCommand { is_for_python: true, ..example });
        } else if let Some(example) = examples.last_mut() {
            match text.strip_prefix("...") {
                Some(more) => {
                    example.text.push('\n');
                    example.text.push_str(more.strip_prefix(' ').unwrap_or(more));
                }
                None => example.prints.get_or_insert_default().push((*text).to_owned()),
            }
        }
    }
    examples
}

/// Commands in sequence; a command may have several lines.
fn listed(block: &[(usize, &str)]) -> Vec<GuideCommand> {
    let mut commands = Vec::new();
    let mut open: Option<GuideCommand> = None;
    for (line, text) in block {
        let command = match open.take() {
            Some(mut command) => {
                command.text.push('\n');
                command.text.push_str(text);
                command
            }
            None if text.trim().is_empty() || text.starts_with('#') => continue,
            None => GuideCommand::shell(*line, *text, None),
        };
        if continues(&command.text) {
            open = Some(command);
        } else {
            commands.push(command);
        }
    }
    assert!(open.is_none(), "a command has no end: {open:?}");
    commands
}

/// Commands behind `$ `, and their output.
fn transcript(block: &[(usize, &str)]) -> Vec<GuideCommand> {
    let mut commands: Vec<GuideCommand> = Vec::new();
    for (line, text) in block {
        match (text.strip_prefix("$ "), commands.last_mut()) {
            (Some(text), Some(last)) if continues(&last.text) => {
                panic!("line {line}: `{text}` begins within a command")
            }
            (Some(text), _) => {
                commands.push(GuideCommand::shell(*line, text, Some(Vec::new())));
            }
            (None, Some(last)) if continues(&last.text) => {
                last.text.push('\n');
                last.text.push_str(text.strip_prefix("> ").unwrap_or(text));
            }
            (None, Some(last)) => last.prints.as_mut().unwrap().push((*text).to_owned()),
            (None, None) => panic!("line {line}: a transcript begins with a command"),
        }
    }
    for prints in commands.iter_mut().filter_map(|command| command.prints.as_mut()) {
        while prints.last().is_some_and(|line| line.is_empty()) {
            prints.pop();
        }
    }
    commands
}

/// Whether the next line belongs to the same command: after a backslash, in a here-document, in a
/// loop.
fn continues(text: &str) -> bool {
    let mut lines = text.lines();
    let last = text.lines().next_back().unwrap_or("");
    if last.ends_with('\\') {
        return true;
    }
    let document =
        lines.next().and_then(|first| first.split_once("<<'")).and_then(|(_, rest)| rest.split_once('\''));
    if let Some((end, _)) = document {
        return last != end || text.lines().count() == 1;
    }
    let code: Vec<&str> = text.lines().map(|line| line.split(" #").next().unwrap_or(line)).collect();
    let words =
        |word| code.iter().flat_map(|line| line.split_whitespace()).filter(|found| *found == word).count();
    words("do") > words("done") + words("done;")
}

#[test]
fn guide_parser_finds_commands_and_skips_other_blocks() {
    let guide = "text\n```sh\n# why\na \\\n  b   # do c\n\nfor x in 1; do\n  y\ndone\n```\n```text\nno\n```\n\
                 ```console\n$ p\nq\n\n$ cat <<'E'\none\nE\none\n```\n";
    let found: Vec<_> = commands(guide).into_iter().map(|c| (c.line, c.text, c.prints)).collect();
    let prints = |text: &str| Some(vec![text.to_owned()]);
    let expected = [
        (4, "a \\\n  b   # do c".to_owned(), None),
        (7, "for x in 1; do\n  y\ndone".to_owned(), None),
        (15, "p".to_owned(), prints("q")),
        (18, "cat <<'E'\none\nE".to_owned(), prints("one")),
    ];
    assert_eq!(found, expected);
}

#[test]
fn guide_parser_finds_examples_at_pythons_prompt() {
    let guide = "```sh\na\n```\n```python\n>>> with b:\n...     c\n4\n>>> d\n```\n```python\ne\n```\n";
    let found: Vec<_> = commands_and_examples(guide);
    let found: Vec<_> = found.iter().map(|one| (one.line, one.text.as_str(), one.is_for_python)).collect();
    let script = "python3 - <<'END OF SCRIPT'\ne\nEND OF SCRIPT";
    assert_eq!(found, [(2, "a", false), (5, "with b:\n    c", true), (8, "d", true), (11, script, false)]);
    assert_eq!(commands_and_examples(guide)[1].prints.as_deref(), Some(&["4".to_owned()][..]));
}
