//! Lists of hosts in the notation of Slurm: `node[001-003,007],gpu-[1-2]:7400 login`.

use std::fmt;

use zerohop_placement::limits::NODES_MAX;
use zerohop_wire::escaped::quoted;

/// Maximum number of hosts of one list: the limit of a map's nodes.
pub const HOSTS_MAX: usize = NODES_MAX;

/// A host of a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostEntry {
    /// Its name, or its address without brackets.
    pub name: String,
    /// The port of its manager, if the list has it.
    pub port: Option<u16>,
}

/// The reason why a list of hosts is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostsError {
    /// The list is empty.
    Empty,
    /// A part of the list is malformed.
    Malformed {
        /// The part.
        part: String,
        /// The reason.
        reason: &'static str,
    },
    /// The list has more than [`HOSTS_MAX`] hosts.
    TooMany,
    /// The list has a host twice.
    Twice {
        /// The host.
        host: String,
    },
    /// This machine is not in the list.
    NotInList {
        /// All hosts in the list, or the first of them.
        named: String,
        /// The name of this machine.
        called: String,
    },
    /// Several hosts in the list are this machine, and nothing says which of them is this process.
    SeveralHere {
        /// These hosts.
        named: String,
    },
    /// The environment has no known scheduler.
    NoScheduler,
    /// According to the scheduler, this host is not in its list.
    Scheduler {
        /// The details.
        reason: String,
    },
}

/// The hosts of a list, in its order: separated by commas, white space or line ends; text after `#` on a line is ignored. Brackets stand for each
/// of their numbers, with as many leading zeros as the first number of a range has. A port may follow after a colon; an IPv6 address with a port is
/// written in brackets.
///
/// # Errors
/// [`HostsError`]; also if a host occurs twice.
pub fn expand(list: &str) -> Result<Vec<HostEntry>, HostsError> {
    let mut hosts = Vec::new();
    for line in list.lines() {
        let line = line.split('#').next().unwrap_or_default();
        for part in parts(line)? {
            expand_part(part, &mut hosts)?;
        }
    }
    if hosts.is_empty() {
        return Err(HostsError::Empty);
    }
    let mut sorted: Vec<&HostEntry> = hosts.iter().collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(HostsError::Twice { host: pair[0].to_string() }),
        None => Ok(hosts),
    }
}

/// The parts between separators outside of brackets.
fn parts(line: &str) -> Result<Vec<&str>, HostsError> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0usize);
    for (at, one) in line.char_indices() {
        match one {
            '[' if depth > 0 => return Err(malformed(line, "a bracket in a bracket")),
            '[' => depth = 1,
            ']' if depth == 0 => return Err(malformed(line, "a bracket is closed that was not opened")),
            ']' => depth = 0,
            ',' if depth == 0 => {
                parts.push(&line[begin..at]);
                begin = at + 1;
            }
            _ if one.is_whitespace() && depth == 0 => {
                parts.push(&line[begin..at]);
                begin = at + one.len_utf8();
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err(malformed(line, "a bracket is not closed"));
    }
    parts.push(&line[begin..]);
    parts.retain(|part| !part.is_empty());
    Ok(parts)
}

fn expand_part(part: &str, hosts: &mut Vec<HostEntry>) -> Result<(), HostsError> {
    let (pattern, port) = split_port(part)?;
    if let Some(address) = pattern.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))
        && address.contains(':')
    {
        return add(hosts, address.to_owned(), port);
    }
    if pattern.contains(':') {
        // An IPv6 address without a port.
        return add(hosts, pattern.to_owned(), port);
    }
    let mut names = vec![String::new()];
    let mut rest = pattern;
    while let Some((before, behind)) = rest.split_once('[') {
        let Some((numbers, after)) = behind.split_once(']') else {
            return Err(malformed(part, "a bracket is not closed"));
        };
        let numbers = ranges(part, numbers)?;
        if names.len().saturating_mul(numbers.len()) > HOSTS_MAX {
            return Err(HostsError::TooMany);
        }
        names = names
            .iter()
            .flat_map(|name| numbers.iter().map(move |number| format!("{name}{before}{number}")))
            .collect();
        rest = after;
    }
    for name in names {
        add(hosts, format!("{name}{rest}"), port)?;
    }
    Ok(())
}

fn add(hosts: &mut Vec<HostEntry>, name: String, port: Option<u16>) -> Result<(), HostsError> {
    let is_named = |one: char| one.is_ascii_alphanumeric() || "-._:%".contains(one);
    if name.is_empty() || !name.chars().all(is_named) {
        return Err(malformed(&name, "letters, digits, dots and dashes make a name"));
    }
    if hosts.len() >= HOSTS_MAX {
        return Err(HostsError::TooMany);
    }
    hosts.push(HostEntry { name, port });
    Ok(())
}

/// Splits off the port, which follows the only colon, or a colon after a bracket.
fn split_port(part: &str) -> Result<(&str, Option<u16>), HostsError> {
    let (host, port) = match part.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') && (host.ends_with(']') || !host.contains(':')) => {
            (host, port)
        }
        _ => return Ok((part, None)),
    };
    match port.parse::<u16>() {
        Ok(port) if port > 0 => Ok((host, Some(port))),
        _ => Err(malformed(part, "a port is a number from 1 to 65535")),
    }
}

/// The numbers of a bracket, in their notation.
fn ranges(part: &str, text: &str) -> Result<Vec<String>, HostsError> {
    let mut numbers = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|one| one.is_ascii_digit());
        let (true, true, Ok(from), Ok(to)) =
            (is_number(first), is_number(last), first.parse::<u64>(), last.parse::<u64>())
        else {
            return Err(malformed(part, "brackets contain numbers and ranges of numbers, as in [1-3,7]"));
        };
        if from > to {
            return Err(malformed(part, "a range ends before it begins"));
        }
        if to - from >= (HOSTS_MAX - numbers.len()) as u64 {
            return Err(HostsError::TooMany);
        }
        let width = first.len();
        numbers.extend((from..=to).map(|number| format!("{number:0width$}")));
    }
    Ok(numbers)
}

fn malformed(part: &str, reason: &'static str) -> HostsError {
    HostsError::Malformed { part: part.chars().take(80).collect(), reason }
}

impl fmt::Display for HostEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) if self.name.contains(':') => write!(f, "[{}]:{port}", self.name),
            Some(port) => write!(f, "{}:{port}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl fmt::Display for HostsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostsError::Empty => f.write_str("the list of hosts is empty"),
            HostsError::Malformed { part, reason } => {
                write!(f, "the list of hosts, at {}: {reason}", quoted(part.as_bytes()))
            }
            HostsError::TooMany => write!(f, "the list names more than {HOSTS_MAX} hosts"),
            HostsError::Twice { host } => {
                write!(f, "the list names {host} twice: give every node an address of its own, as in {host}:7410")
            }
            HostsError::NotInList { named, called } => write!(
                f,
                "the list names no host that is this machine: it has {named}, and this machine is called {called}; correct the list, or \
                 name the host of this process with --listen"
            ),
            HostsError::SeveralHere { named } => write!(
                f,
                "several hosts of the list are this machine ({named}): say with --listen which of them this process is"
            ),
            HostsError::NoScheduler => f.write_str(
                "the environment is of no batch scheduler that is known (SLURM_JOB_NODELIST, PBS_NODEFILE): start this in \
                 an allocation, or give a list",
            ),
            HostsError::Scheduler { reason } => f.write_str(reason),
        }
    }
}

impl std::error::Error for HostsError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(list: &str) -> Vec<String> {
        expand(list).unwrap().iter().map(HostEntry::to_string).collect()
    }

    #[test]
    fn host_lists_expand_in_order_with_leading_zeros() {
        assert_eq!(
            names("node[001-003,007],gpu-[1-2]"),
            ["node001", "node002", "node003", "node007", "gpu-1", "gpu-2"]
        );
        assert_eq!(names("n[9-11]"), ["n9", "n10", "n11"]);
        assert_eq!(names("r[1-2]n[01-02].site"), ["r1n01.site", "r1n02.site", "r2n01.site", "r2n02.site"]);
        assert_eq!(names(" a, b:7410 \n# all of it\nc # the last\n\n"), ["a", "b:7410", "c"]);
        assert_eq!(names("n[1-2]:7500"), ["n1:7500", "n2:7500"]);
        assert_eq!(names("::1 [::1]:7400 [fe80::2%eth0]"), ["::1", "[::1]:7400", "fe80::2%eth0"]);
        assert_eq!(names("127.0.0.1:7400,127.0.0.1:7410"), ["127.0.0.1:7400", "127.0.0.1:7410"]);
    }

    #[test]
    fn invalid_host_list_is_refused_with_position() {
        assert_eq!(expand(" # none\n"), Err(HostsError::Empty));
        assert_eq!(expand("a,b,a"), Err(HostsError::Twice { host: "a".into() }));
        assert_eq!(expand("n[1-3],n2"), Err(HostsError::Twice { host: "n2".into() }));
        for bad in [
            "n[1-3", "n1]", "n[[1]]", "n[3-1]", "n[]", "n[a]", "n[1-]", "n[-1]", "a:0", "a:x", "a:70000",
            "ä", "a/b",
        ] {
            assert!(matches!(expand(bad), Err(HostsError::Malformed { .. })), "{bad}: {:?}", expand(bad));
        }
        for many in ["n[0-99999999999]", "n[1-9999]m[1-9999]", "n[1-60000],m[1-60000]"] {
            assert_eq!(expand(many), Err(HostsError::TooMany), "{many}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(list in "[a-c0-9\\[\\],:#. \n-]{0,40}") {
            if let Ok(hosts) = expand(&list) {
                prop_assert!(!hosts.is_empty() && hosts.len() <= HOSTS_MAX);
                prop_assert!(hosts.iter().all(|host| !host.name.is_empty() && !host.name.contains(['[', ']', ','])));
            }
        }

        #[test]
        fn range_expands_to_its_members(from in 0u32..500, count in 1u32..60, width in 1usize..6) {
            let to = from + count - 1;
            let hosts = expand(&format!("h[{from:0width$}-{to}]")).unwrap();
            let expected: Vec<String> = (from..=to).map(|number| format!("h{number:0width$}")).collect();
            prop_assert_eq!(hosts.iter().map(HostEntry::to_string).collect::<Vec<_>>(), expected);
        }

        #[test]
        fn plain_host_list_expands_to_itself(hosts in prop::collection::btree_set("[a-z][a-z0-9.-]{0,8}(:[1-9][0-9]{0,3})?", 1..9)) {
            let list = hosts.iter().cloned().collect::<Vec<_>>();
            prop_assert_eq!(names(&list.join(",")), list.clone());
            prop_assert_eq!(names(&list.join("\n")), list);
        }
    }
}
