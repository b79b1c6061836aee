//! The position of a process in a list of hosts, and the lists of batch schedulers.

use super::expand::{HostEntry, HostsError, expand};
use zerohop_wire::plurals::counted;

/// A batch scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// Slurm.
    Slurm,
    /// PBS and its relatives.
    Pbs,
}

/// The contents of a scheduler's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerHosts {
    /// The scheduler.
    pub scheduler: Scheduler,
    /// The hosts of the allocation.
    pub hosts: Vec<HostEntry>,
    /// The index of this process's host, if the scheduler reports it.
    pub own_index: Option<usize>,
}

/// Maximum number of hosts that an error names; it counts the others.
const NAMED_MAX: usize = 8;

/// The hosts of the allocation in which this process runs. `variable` reads the environment, `file` reads an entire file.
///
/// Slurm: `SLURM_JOB_NODELIST` (formerly `SLURM_NODELIST`), and `SLURMD_NODENAME` or `SLURM_NODEID` of this process. PBS: `PBS_NODEFILE`, which
/// lists a host once for each of its slots.
///
/// # Errors
/// There is no scheduler, or its data is invalid.
pub fn of_scheduler(
    variable: impl Fn(&str) -> Option<String>,
    file: impl Fn(&str) -> Result<String, String>,
) -> Result<SchedulerHosts, HostsError> {
    let setting = |name: &str| variable(name).filter(|text| !text.trim().is_empty());
    if let Some(list) = setting("SLURM_JOB_NODELIST").or_else(|| setting("SLURM_NODELIST")) {
        let hosts = expand(&list)?;
        let wrong = |reason: String| HostsError::Scheduler { reason };
        let me = match (setting("SLURMD_NODENAME"), setting("SLURM_NODEID")) {
            (Some(name), _) => {
                let found = hosts.iter().position(|host| host.name == name);
                let reason = || {
                    wrong(format!(
                        "SLURMD_NODENAME is {name}, which SLURM_JOB_NODELIST does not have ({list})"
                    ))
                };
                Some(found.ok_or_else(reason)?)
            }
            (None, Some(id)) => {
                let found = id.trim().parse::<usize>().ok().filter(|id| *id < hosts.len());
                let reason = || {
                    wrong(format!(
                        "SLURM_NODEID is {id}, but SLURM_JOB_NODELIST has {} ({list})",
                        counted(hosts.len(), "host")
                    ))
                };
                Some(found.ok_or_else(reason)?)
            }
            (None, None) => None,
        };
        return Ok(SchedulerHosts { scheduler: Scheduler::Slurm, hosts, own_index: me });
    }
    if let Some(path) = setting("PBS_NODEFILE") {
        let text = file(&path).map_err(|reason| HostsError::Scheduler { reason })?;
        // Once for each slot.
        let mut lines: Vec<&str> = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        let hosts = expand(&lines.join("\n"))?;
        return Ok(SchedulerHosts { scheduler: Scheduler::Pbs, hosts, own_index: None });
    }
    Err(HostsError::NoScheduler)
}

/// Finds this process among the hosts. `listen` is the address at which it listens, `called` is the name of this machine, and `is_here` says
/// whether a name or an address belongs to this machine.
///
/// # Errors
/// [`HostsError::NotInList`], [`HostsError::SeveralHere`].
pub fn find_self(
    hosts: &[HostEntry],
    listen: Option<(&str, u16)>,
    called: &str,
    port_default: u16,
    is_here: impl Fn(&str) -> bool,
) -> Result<usize, HostsError> {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    // An address is not a short name.
    let is_name = |name: &str| name.contains(|one: char| one.is_ascii_alphabetic()) && !name.contains(':');
    let here: Vec<usize> = (0..hosts.len())
        .filter(|at| {
            let name = &hosts[*at].name;
            is_name(name) && is_name(called) && short(name) == short(called) || is_here(name)
        })
        .collect();
    let matching: Vec<usize> = match listen {
        None => here.clone(),
        Some((name, port)) => {
            let is_it = |at: &&usize| {
                let host = &hosts[**at];
                host.port.unwrap_or(port_default) == port && (host.name == name || is_here(name))
            };
            let same: Vec<usize> = here.iter().filter(is_it).copied().collect();
            // Of two addresses of this machine, the one in `listen` is chosen.
            match same.iter().find(|at| hosts[**at].name == name) {
                Some(at) => vec![*at],
                None => same,
            }
        }
    };
    match matching[..] {
        [one] => Ok(one),
        [] => Err(HostsError::NotInList {
            named: some_of(hosts.iter()),
            called: match listen {
                Some((name, port)) => format!("{called} (with --listen {name}:{port})"),
                None => called.to_owned(),
            },
        }),
        _ => Err(HostsError::SeveralHere { named: some_of(matching.iter().map(|at| &hosts[*at])) }),
    }
}

fn some_of<'h>(hosts: impl Iterator<Item = &'h HostEntry>) -> String {
    let names: Vec<String> = hosts.map(HostEntry::to_string).collect();
    match names.len() {
        0..=NAMED_MAX => names.join(", "),
        all => format!("{} and {} more", names[..NAMED_MAX].join(", "), all - NAMED_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheduled(variables: &[(&str, &str)]) -> Result<SchedulerHosts, HostsError> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        of_scheduler(variable, |path| {
            if path == "/nodes" {
                Ok("b1\nb1\nb2\nb2\n".to_owned())
            } else {
                Err(format!("{path}: not there"))
            }
        })
    }

    fn reason<T: std::fmt::Debug>(result: Result<T, HostsError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn process_finds_its_host_from_slurm() {
        let list = ("SLURM_JOB_NODELIST", "node[001-003]");
        let by_name = scheduled(&[list, ("SLURMD_NODENAME", "node002"), ("SLURM_NODEID", "0")]).unwrap();
        assert_eq!(
            (by_name.scheduler, by_name.hosts.len(), by_name.own_index),
            (Scheduler::Slurm, 3, Some(1))
        );
        assert_eq!(scheduled(&[list, ("SLURM_NODEID", "2")]).unwrap().own_index, Some(2));
        assert_eq!(scheduled(&[list]).unwrap().own_index, None);
        assert_eq!(scheduled(&[("SLURM_NODELIST", "a,b")]).unwrap().hosts.len(), 2);
        assert!(reason(scheduled(&[list, ("SLURMD_NODENAME", "node9")])).contains("node9"));
        assert!(reason(scheduled(&[list, ("SLURM_NODEID", "3")])).contains("has 3 hosts"));
        assert!(reason(scheduled(&[list, ("SLURM_NODEID", "x")])).contains("SLURM_NODEID is x"));
    }

    #[test]
    fn pbs_names_a_host_for_each_slot() {
        let found = scheduled(&[("PBS_NODEFILE", "/nodes")]).unwrap();
        let names: Vec<&str> = found.hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!((names, found.own_index, found.scheduler), (vec!["b1", "b2"], None, Scheduler::Pbs));
        assert!(reason(scheduled(&[("PBS_NODEFILE", "/gone")])).contains("/gone"));
        assert_eq!(scheduled(&[("SLURM_JOB_NODELIST", " ")]), Err(HostsError::NoScheduler));
    }

    #[test]
    fn process_finds_itself_by_name_address_or_listen_address() {
        let local = |name: &str| name == "127.0.0.1" || name == "10.0.0.2";
        let find =
            |list: &str, listen, called: &str| find_self(&expand(list).unwrap(), listen, called, 7400, local);
        assert_eq!(find("n1,n2,n3", None, "n2.cluster"), Ok(1));
        assert_eq!(find("10.0.0.1,10.0.0.2", None, "n2"), Ok(1));
        let three = "127.0.0.1:7400,127.0.0.1:7410,127.0.0.1:7420";
        assert_eq!(find(three, Some(("127.0.0.1", 7410)), "x"), Ok(1));
        assert_eq!(find("127.0.0.1,127.0.0.1:7410", Some(("127.0.0.1", 7400)), "x"), Ok(0));
        assert_eq!(find("127.0.0.1,10.0.0.2", Some(("10.0.0.2", 7400)), "x"), Ok(1));
        assert!(reason(find(three, None, "x")).contains("several hosts"));
        assert!(
            reason(find("n1,n2", None, "n9")).contains("names no host that is this machine: it has n1, n2")
        );
        assert!(reason(find(three, Some(("127.0.0.1", 7777)), "x")).contains("127.0.0.1:7777"));
        let many = reason(find("n[1-20]", None, "x"));
        assert!(many.contains("and 12 more"), "{many}");
        // Numbers are not short names.
        assert!(find("10.1.1.1", None, "10.2.2.2").is_err());
    }
}
