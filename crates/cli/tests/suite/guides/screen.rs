//! The lines that a terminal shows for what was printed to it.

/// The lines without escape sequences. After a carriage return a line is overwritten.
pub(crate) fn shown(printed: &str) -> Vec<String> {
    let lines = printed.strip_suffix('\n').unwrap_or(printed);
    if lines.is_empty() { Vec::new() } else { lines.split('\n').map(line).collect() }
}

fn line(printed: &str) -> String {
    let (mut cells, mut column): (Vec<char>, usize) = (Vec::new(), 0);
    let mut rest = printed.chars();
    while let Some(c) = rest.next() {
        match c {
            '\r' => column = 0,
            '\u{1b}' if rest.as_str().starts_with('[') => {
                // The letter behind the parameters: K erases the rest of the line, others colour it.
                if rest.by_ref().skip(1).find(char::is_ascii_alphabetic) == Some('K') {
                    cells.truncate(column);
                }
            }
            c => {
                cells.truncate(cells.len().max(column));
                match cells.get_mut(column) {
                    Some(cell) => *cell = c,
                    None => cells.push(c),
                }
                column += 1;
            }
        }
    }
    cells.into_iter().collect::<String>().trim_end().to_owned()
}

/// The replies without the types that `redis-cli` prints on a terminal.
pub(crate) fn without_types(replies: Vec<String>) -> Vec<String> {
    let value = |reply: String| {
        let reply = reply.trim_start();
        let reply = match reply.split_once(") ") {
            Some((number, value)) if number.chars().all(|c| c.is_ascii_digit()) => value,
            _ => reply,
        };
        let reply = reply.strip_prefix("(integer) ").unwrap_or(reply);
        let quoted = reply.strip_prefix('"').and_then(|reply| reply.strip_suffix('"'));
        quoted.unwrap_or(reply).to_owned()
    };
    replies.into_iter().map(value).collect()
}

#[test]
fn terminal_shows_last_state_of_a_line() {
    assert_eq!(
        shown("stored: 1 MB\r\u{1b}[Kstored: 2 MB\r\u{1b}[Kdone\r\n\u{1b}[31mred\u{1b}[0m\r\n"),
        ["done", "red"]
    );
    assert_eq!(shown("12345\rab\n\nend"), ["ab345", "", "end"]);
    assert!(shown("").is_empty());
}

#[test]
fn replies_of_redis_have_no_types() {
    let replies = ["OK", "\"anna\"", "(integer) 2", "1) \"first\"", "2) (integer) 3", "(nil)"];
    let plain = without_types(replies.map(str::to_owned).to_vec());
    assert_eq!(plain, ["OK", "anna", "2", "first", "3", "(nil)"]);
}
