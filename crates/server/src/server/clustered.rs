//! The start of a node in a cluster of several.
//!
//! ```text
//!   folder locked, member file and control log read ──> listeners ──> manager with its agent
//!      agent: bootstraps or finds the control group ──> Instances ──> they open their data ──> it joins ──> Joined ──> ready
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tracing::info;
use zerohop_control::agent::{AgentSettings, ControlRole as ControlPart};
use zerohop_control::command::{ManagerId, ManagerInfo};
use zerohop_control::manager::RaftManager;
use zerohop_engine::EngineOptions;
use zerohop_placement::hash::HashKind;
use zerohop_placement::{Address, MapHistory};
use zerohop_reactor::{MioDriver, Proofs};
use zerohop_shard::Identity;
use zerohop_system::clock::{Stopwatch, unix_ms};
use zerohop_system::entropy::random_u64;
use zerohop_wire::ids::{Incarnation, InstanceId, NodeId};
use zerohop_wire::messages::ClusterId;

use super::listen::Listeners;
use super::{
    Instances, JoinMethod, NodeFolder, OpenInstances, RunningNode, SavedMember, Server, ServerOptions,
    StartError, instance_count, no_thread, open_all, proofs, random, share_descriptors,
};
use crate::instance::{InstancePlan, OpenResult};
use crate::limits::{INSTANCE_REQUESTS_MAX, JOBS_MAX, JOIN_WAIT, START_FAILED_WAIT};
use crate::manager::{
    self, ClusterMode, ClusterPlan, FirstKeyspace, ManagerInput, ManagerPlan, NodeIdentity, OpeningOrder,
    Serve,
};

/// A listener, its instance, and its proofs.
type PlacedListener<'a> = (((MioDriver, SocketAddr), &'a InstanceId), Option<Proofs>);

/// How long a manager must be silent before another node replaces it in the control group: the same time after which the copies of a node that is
/// down are made again.
const MANAGER_AFTER: Duration = Duration::from_secs(30);

/// Interval of the checks whether the manager is still running.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The error for a folder of a standalone node.
pub(super) fn standalone_folder_error(options: &ServerOptions) -> StartError {
    let root = options.data.clone().unwrap_or_default();
    let reason = "it contains a standalone node, which cannot join a cluster with its data yet: start it without options \
                  such as --hosts and --join, or name another folder"
        .to_owned();
    StartError::ForeignFolder { root, reason }
}

/// Starts a node, and returns when it has joined and serves.
pub(super) fn start(
    options: &ServerOptions,
    mut folder: NodeFolder,
    member: Option<SavedMember>,
    stopwatch: Stopwatch,
) -> Result<Server, StartError> {
    let made_with = member.as_ref().and_then(|saved| saved.map.node(saved.node?));
    let instances = instance_count(options, made_with.map(|node| node.instances().count()))?;
    let mut log = folder.read_control_log()?;
    share_descriptors(instances)?;
    let listeners = Listeners::open(options.listen, instances, options.tls.as_ref())?;
    let incarnation = Incarnation(random(random_u64())?.max(1));
    if let Some(bootstrap_log) = new_bootstrap_log(options, member.as_ref(), log.as_deref())? {
        folder.replace_control_log(&bootstrap_log).map_err(StartError::NotSaved)?;
        log = Some(bootstrap_log);
    }
    let log_bytes = log.as_ref().map_or(0, |log| log.len() as u64);
    let (settings, first) = settings(options, member, log, incarnation, &listeners)?;
    info!(
        cluster = super::hex(&settings.cluster.0),
        node = settings.node.map(NodeId::get),
        manager = settings.manager.as_str(),
        instances,
        data = folder.root().map(|root| root.display().to_string()),
        map_epoch = settings.map.epoch().0,
        "starting in a cluster"
    );
    let (jobs, jobs_in) = mpsc::channel(JOBS_MAX);
    let (control, control_in) = mpsc::channel(instances + 2);
    let (words, words_in) = mpsc::channel(INSTANCE_REQUESTS_MAX);
    let (opening_out, opening) = sync_channel(4);
    let stop = Arc::new(Notify::new());
    let (outcome_out, outcome) = sync_channel(1);
    let Listeners { manager: (listener, manager_at), instances: drivers } = listeners;
    let warning = folder.warning();
    let about = NodeIdentity {
        cluster: settings.cluster,
        node: settings.node.unwrap_or(NodeId(0)),
        incarnation,
        started_ms: unix_ms(),
        in_memory: options.data.is_none(),
        data: options.data.clone(),
        warning,
        secret: options.secret.clone(),
        tls: options.tls.clone(),
        connections: options.connections,
        http_names: super::listen::http_names(options),
    };
    let history = MapHistory::new(Arc::clone(&settings.map));
    let plan = ClusterPlan { settings, log_bytes, first, opening: opening_out, instance_messages: words_in };
    let manager_plan = ManagerPlan {
        about,
        proofs: proofs(options)?,
        folder,
        cluster_state: ClusterMode::InCluster(Box::new(plan)),
        history,
        listener,
        jobs: (jobs.clone(), jobs_in),
        control: control_in,
        stop: Arc::clone(&stop),
    };
    let thread = manager::start(manager_plan, outcome_out).map_err(|error| no_thread(&error))?;
    let (opened_out, opened) = sync_channel::<OpenResult>(2 * instances);
    let mut server = Server {
        node: NodeId(0),
        manager: manager_at,
        instances: Vec::new(),
        warning,
        ready_after: Duration::ZERO,
        stop,
        control,
        running: Some(RunningNode {
            outcome,
            ended: None,
            manager: Some(thread),
            instances: Instances { opened, threads: Vec::new(), mailboxes: Vec::new() },
        }),
        end_wait: START_FAILED_WAIT,
    };
    // Dropped before the server, which waits until no sender is left that could open an instance.
    let opened_out = opened_out;
    // If any of this fails, dropping the server stops everything that runs.
    let OpeningOrder::Instances { cluster, node, first_instance, map } = wait(&mut server, &opening)? else {
        return Err(StartError::Cluster { reason: "it joined before its instances were open".to_owned() });
    };
    let ids: Vec<InstanceId> = (first_instance..).map(InstanceId).take(instances).collect();
    let addresses: Vec<SocketAddr> = drivers.iter().map(|(_, address)| *address).collect();
    let memory_bytes = options.budget_bytes() / instances.max(1) as u64;
    let history = MapHistory::new(Arc::clone(&map));
    let proofs_of_all: Vec<Option<Proofs>> =
        ids.iter().map(|_| proofs(options)).collect::<Result<_, StartError>>()?;
    let plan_of = |(place, (((driver, _), id), proofs)): (usize, PlacedListener<'_>)| InstancePlan {
        instance_index: place,
        identity: Identity { cluster, instance: *id, incarnation },
        root: options.data.clone(),
        engine: EngineOptions { memory_bytes, ..EngineOptions::default() },
        partitions: options.partitions.of_instance(instances),
        history: history.clone(),
        driver,
        jobs: jobs.clone(),
        report_end: manager::report_end(server.control.clone()),
        manager_messages: Some(words.clone()),
        proofs,
        serves_cross_partition: options.serves_cross_partition,
        redis_time_out: options.redis_time_out,
        gateway: options.gateway,
        limits: options.connections.of_instance(),
    };
    let plans: Vec<InstancePlan> =
        drivers.into_iter().zip(&ids).zip(proofs_of_all).enumerate().map(plan_of).collect();
    let Some(running) = &mut server.running else {
        return Err(StartError::Cluster { reason: "it has been stopped".to_owned() });
    };
    let OpenInstances { handles, lived, closed } =
        open_all(plans.into_iter(), opened_out, &ids, &mut running.instances)?;
    // The process start that the map names: if these disks do not have it in their record, they are other or replaced disks.
    let named = map.node(node).map(|found| found.incarnation());
    let is_whole = handles.iter().all(|handle| handle.recovered.damaged == 0);
    let is_intact = is_whole && named.is_some_and(|named| named == incarnation || lived.contains(&named));
    // For any other start the mark says nothing: another process may have run since, or the folder is an old copy.
    let is_closed = is_intact && closed.is_some() && closed == named;
    (server.node, server.instances) = (node, ids.into_iter().zip(addresses).collect());
    // The next step waits for more than this reply.
    let (executed, _) = sync_channel(1);
    let serving = Serve { handles, epoch: map.epoch(), is_intact, is_closed, executed };
    if server.control.try_send(ManagerInput::Serve(serving)).is_err() {
        return Err(ended(&mut server));
    }
    match wait(&mut server, &opening)? {
        OpeningOrder::Joined => {}
        OpeningOrder::Instances { .. } => {
            return Err(StartError::Cluster { reason: "its instances were to be opened twice".to_owned() });
        }
    }
    server.is_ready(stopwatch);
    Ok(server)
}

/// Waits for the manager's order.
fn wait(server: &mut Server, opening: &Receiver<OpeningOrder>) -> Result<OpeningOrder, StartError> {
    let stopwatch = Stopwatch::start();
    while stopwatch.elapsed() < JOIN_WAIT {
        match opening.recv_timeout(CHECK_INTERVAL) {
            Ok(word) => return Ok(word),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(ended(server)),
        }
        if let Some(running) = &mut server.running
            && let Some(Err(error)) = running.ended_within(Duration::ZERO)
        {
            return Err(error.clone().into());
        }
    }
    let reason = format!(
        "the cluster was not found within {JOIN_WAIT:?}: more than half of the managers must run and reach each other"
    );
    Err(StartError::Cluster { reason })
}

/// The reason why the manager has ended.
fn ended(server: &mut Server) -> StartError {
    let ended = server.running.as_mut().and_then(|running| running.ended_within(START_FAILED_WAIT));
    match ended {
        Some(Err(error)) => error.clone().into(),
        _ => StartError::Cluster { reason: "the manager has ended; the log says why".to_owned() },
    }
}

/// How many nodes of a list bootstrap the control group: 1, 3 or 5.
fn bootstrap_count(hosts: usize) -> usize {
    match hosts {
        0..=2 => 1,
        3..=8 => 3,
        _ => 5,
    }
}

/// The settings of the agent.
fn settings(
    options: &ServerOptions,
    member: Option<SavedMember>,
    log: Option<Vec<u8>>,
    incarnation: Incarnation,
    listeners: &Listeners,
) -> Result<(AgentSettings, Option<FirstKeyspace>), StartError> {
    let own = address(listeners.manager.1)?;
    let mut settings =
        AgentSettings::new(random(random_u64())?, ClusterId::default(), incarnation, own.clone());
    settings.leader.manager_after_ms = MANAGER_AFTER.as_millis() as u64;
    settings.instances =
        listeners.instances.iter().map(|(_, at)| address(*at)).collect::<Result<_, StartError>>()?;
    let mut first = None;
    let mut contacts: Vec<Address> = Vec::new();
    let mut bootstrap = None;
    if let Some(cluster) = &options.cluster {
        (settings.domain, settings.capacity) = (cluster.domain, cluster.capacity.max(1));
        if let Some(time) = cluster.balance_after {
            settings.leader.stable_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        }
        match &cluster.method {
            JoinMethod::Together { hosts, own_index: me, name } => {
                let all = hosts.iter().map(|host| address(*host)).collect::<Result<Vec<_>, StartError>>()?;
                if all.get(*me) != Some(&own) {
                    let address = all.get(*me).map_or("no address", Address::as_str);
                    let reason =
                        format!("the list of hosts has {address} for this node, which listens at {own}");
                    return Err(StartError::Cluster { reason });
                }
                let addresses = bootstrap_addresses(options, &all)?;
                settings.cluster = name_of(name, &addresses);
                let members = bootstrap_nodes(&all);
                // The address of this node at that time, unless another node listens there now.
                settings.joined_at = options.local.as_ref().filter(|local| local.is_first).and_then(|_| {
                    let then = addresses.get(*me)?;
                    (*then == own || !all.contains(then)).then(|| then.clone())
                });
                contacts.extend(members.iter().map(|one| one.addr.clone()).filter(|addr| *addr != own));
                if *me < members.len() {
                    first = Some(FirstKeyspace { nodes: all.len(), create_order: *me as u32 });
                    let id = ManagerId(*me as u64 + 1);
                    bootstrap = Some(ControlPart::Bootstrap { id, members, addresses: all });
                }
            }
            JoinMethod::Join(hosts) => {
                for host in hosts {
                    contacts.push(address(*host)?);
                }
            }
        }
    }
    settings.moved = moved(options)?;
    settings.named = contacts.iter().filter(|one| **one != own).cloned().collect();
    if let Some(saved) = member {
        if saved.cluster != settings.cluster && saved.cluster != ClusterId::default() {
            // The list names hosts to contact: a host of another cluster and this node reject each other.
            (bootstrap, first) = (None, None);
        }
        if saved.cluster != ClusterId::default() {
            settings.cluster = saved.cluster;
        }
        (settings.node, settings.map) = (saved.node, saved.map);
        contacts.extend(saved.contacts);
    }
    contacts.dedup();
    contacts.truncate(crate::node_files::identity::CONTACTS_MAX);
    settings.contacts = contacts;
    settings.control = match (log, bootstrap) {
        (Some(log), _) => ControlPart::Log(log),
        (None, Some(bootstrap)) => bootstrap,
        (None, None) => ControlPart::No,
    };
    check_contacts(options, &settings)?;
    Ok((settings, first))
}

/// Refuses a new node that could ask only itself.
fn check_contacts(options: &ServerOptions, settings: &AgentSettings) -> Result<(), StartError> {
    let joins = matches!(options.cluster.as_ref().map(|cluster| &cluster.method), Some(JoinMethod::Join(_)));
    let is_new = settings.node.is_none() && matches!(settings.control, ControlPart::No);
    if !joins || !is_new || settings.contacts.iter().any(|one| *one != settings.manager) {
        return Ok(());
    }
    let reason = format!(
        "--join names only this node's own address, {}: name a node that runs in the cluster, or start a new cluster with --hosts",
        settings.manager.as_str()
    );
    Err(StartError::Cluster { reason })
}

/// The bootstrap nodes of a list.
fn bootstrap_nodes(all: &[Address]) -> Vec<ManagerInfo> {
    let members = (1..).zip(&all[..bootstrap_count(all.len())]);
    members.map(|(id, addr)| ManagerInfo { id: ManagerId(id), addr: addr.clone() }).collect()
}

/// The addresses of the nodes in the list when their cluster was bootstrapped.
fn bootstrap_addresses(options: &ServerOptions, all: &[Address]) -> Result<Vec<Address>, StartError> {
    match &options.local {
        Some(local) if local.bootstrap_addresses.len() == all.len() => {
            local.bootstrap_addresses.iter().map(|at| address(*at)).collect()
        }
        _ => Ok(all.to_vec()),
    }
}

/// The log of a bootstrap node of a local cluster that has no log and is not bootstrapped yet. The process that starts all the nodes confirms this,
/// so this node has not voted. All bootstrap nodes start with the same list, whatever their addresses are now.
fn new_bootstrap_log(
    options: &ServerOptions,
    member: Option<&SavedMember>,
    log: Option<&[u8]>,
) -> Result<Option<Vec<u8>>, StartError> {
    let Some(JoinMethod::Together { hosts, own_index: me, .. }) =
        options.cluster.as_ref().map(|cluster| &cluster.method)
    else {
        return Ok(None);
    };
    let is_first = options.local.as_ref().is_some_and(|local| local.is_first);
    if !is_first
        || log.is_some_and(|log| !log.is_empty())
        || member.is_some_and(|member| member.node.is_some())
    {
        return Ok(None);
    }
    let all = hosts.iter().map(|host| address(*host)).collect::<Result<Vec<_>, StartError>>()?;
    let addresses = bootstrap_addresses(options, &all)?;
    let members = bootstrap_nodes(&addresses);
    Ok(members.get(*me).map(|own| RaftManager::bootstrap_with(own.id, &members, &addresses)))
}

/// Current addresses of managers that the control group may not know yet.
fn moved(options: &ServerOptions) -> Result<Vec<ManagerInfo>, StartError> {
    let Some(local) = &options.local else { return Ok(Vec::new()) };
    let mut moved = local.managers.clone();
    if let (true, Some(JoinMethod::Together { hosts, .. })) =
        (local.is_first, options.cluster.as_ref().map(|cluster| &cluster.method))
    {
        // Managers that bootstrap now have the numbers of their positions.
        for (id, at) in (1..).zip(&hosts[..bootstrap_count(hosts.len())]) {
            if !moved.iter().any(|(known, there)| *known == id || there == at) {
                moved.push((id, *at));
            }
        }
    }
    moved.into_iter().map(|(id, at)| Ok(ManagerInfo { id: ManagerId(id), addr: address(at)? })).collect()
}

/// The id of a cluster whose nodes start together: the same on all its hosts, before they have exchanged any message.
pub(super) fn name_of(name: &str, hosts: &[Address]) -> ClusterId {
    let text = hosts.iter().fold(format!("zerohop cluster {name}"), |text, host| format!("{text}\n{host}"));
    let mut id = [0; 16];
    for (half, seed) in id.chunks_exact_mut(8).zip([1, 2]) {
        half.copy_from_slice(&HashKind::Xxh3.hash(seed, text.as_bytes()).to_le_bytes());
    }
    ClusterId(id)
}

pub(super) fn address(address: SocketAddr) -> Result<Address, StartError> {
    Address::new(&address.to_string())
        .map_err(|error| StartError::Listen { address: address.to_string(), reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_groups_are_odd_and_no_larger_than_the_cluster() {
        for hosts in 1..100 {
            let members = bootstrap_count(hosts);
            assert!(members % 2 == 1 && members <= hosts.max(1) && members <= 5);
        }
    }

    #[test]
    fn cluster_id_differs_by_name_and_hosts() {
        let host = |port: u16| address(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
        let ids = [
            name_of("", &[host(1), host(2)]),
            name_of("a", &[host(1), host(2)]),
            name_of("", &[host(1), host(3)]),
            name_of("", &[host(1)]),
        ];
        for (at, id) in ids.iter().enumerate() {
            assert!(*id != ClusterId::default() && !ids[..at].contains(id));
        }
        assert_eq!(ids[0], name_of("", &[host(1), host(2)]));
    }
}
