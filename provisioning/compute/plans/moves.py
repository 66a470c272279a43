"""Plans that empty hosts: the way and the target of each server, or the reason why it stays. A plan uses the checks of
the actions and the scheduler, on copies of the hosts' records from which the resources of every planned server are
subtracted. It changes nothing, so it also shows the effect of the death of a host.
"""

import random
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db.models import Count

from provisioning.compute.actions.base import ServerAction
from provisioning.compute.actions.registry import ways
from provisioning.compute.actions.ways import DrainWay, Obstacles
from provisioning.compute.launch.decisions import options_now
from provisioning.compute.models import Instance, ServerGroup
from provisioning.compute.selectors.host_rows import host_states
from provisioning.compute.selectors.request_specs import spec_of
from provisioning.compute.selectors.root_pools import shared_pool
from provisioning.compute.states import AT_REST, VmState
from provisioning.hosts.models import Host
from provisioning.scheduler import Decision, GroupSpec, HostState, Options, RequestSpec, decide, explain, facts_needed
from provisioning.scheduler.spec import RawId

MOST = 1000
"""Maximum number of servers of a plan."""
APART = "Its server group does not allow it. "
NO_WAY = "None of the chosen actions can move it."
IDLE = "It does not run, so nothing is interrupted."
FREE_ROOM = "Free resources on another host, add a host, or stop it."
UNREAD = ("user_data", "metadata", "injected_files", "requested_networks", "lost_attempts", "trusted_certificates")
"""Columns of servers that no plan needs; decoding them for thousands of servers takes time."""
CHANGES = {
    "ComputeFilter": "Enable another host.",
    "AvailabilityZoneFilter": "Enable another host in its availability zone.",
    "CpuFeaturesFilter": "Migrate it cold, or start it again with a CPU baseline (NOVELLA_CPU_BASELINE).",
    "HostNeedsFilter": "Add a host with this hardware.",
    "ServerGroupAffinityFilter": "Move the servers of its group together while they are stopped, or change the group.",
    "ServerGroupAntiAffinityFilter": "Enable another host for its group.",
    "NumInstancesFilter": FREE_ROOM,
    "IoOpsFilter": "Wait until builds and copies on the other hosts have ended.",
    "CoreFilter": FREE_ROOM,
    "RamFilter": FREE_ROOM,
    "DiskFilter": FREE_ROOM,
}
"""Filter that rejected the last hosts → advice for operators."""


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """One server of a plan.

    ``way`` is empty if the server is not moved. Then ``reason`` is the explanation, and ``change`` the advice for
    operators. ``target`` is the expected host; empty: none, or the server is stopped where it is.
    """

    instance: Instance
    way: str = ""
    target: str = ""
    seconds: float = 0.0
    reason: str = ""
    change: str = ""
    idle: bool = False
    """Whether the server stays without being interrupted, because it does not run."""
    breaks_group: bool = False
    """Whether only its server group prevents the move."""
    new_disks: bool = False
    """Whether disks of the server are created again from its image."""

    @property
    def blocked(self) -> bool:
        """Whether the server runs, and no action can move or stop it."""
        return not self.way and not self.idle


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a host, in the order of the moves; ``more``: the host has more servers than the plan."""

    moves: Sequence[PlannedMove]
    more: bool = False

    @property
    def going(self) -> list[PlannedMove]:
        return [move for move in self.moves if move.target]

    @property
    def stopping(self) -> list[PlannedMove]:
        """Return the servers that are stopped where they are."""
        return [move for move in self.moves if move.way and not move.target]

    @property
    def apart(self) -> list[PlannedMove]:
        return [move for move in self.moves if move.breaks_group]

    @property
    def staying(self) -> list[PlannedMove]:
        """Return the servers that cannot move, apart from those that only their server group prevents."""
        return [move for move in self.moves if not move.way and not move.breaks_group]

    @property
    def blocked(self) -> list[PlannedMove]:
        return [move for move in self.moves if move.blocked]

    def seconds(self, parallel: int) -> float:
        """Return the estimated duration with this number of moves at the same time."""
        return sum(move.seconds for move in self.moves) / max(parallel, 1)


def known_ways(*, host_up: bool) -> list[DrainWay]:
    """Return the ways of a host that is up, or down, the most careful one first."""
    return [way for _, way in ways().values() if way.host_up is host_up]


def plan_host(host: Host, chosen: Collection[str], *, host_up: bool) -> Plan:
    """Plan all servers of a host that are not deleted, the largest first, in the ``chosen`` ways; for operators.

    ``host_up`` False is also possible for a host that is up: the plan then shows the effect of its death.
    """
    return plan_hosts([host], chosen, host_up=host_up)[host.id]


def plan_hosts(hosts: Sequence[Host], chosen: Collection[str], *, host_up: bool) -> dict[uuid.UUID, Plan]:
    """Plan several hosts, each as if only it were emptied. The number of queries does not grow with the hosts."""
    rows = Instance.objects.filter(host__in=[host.id for host in hosts], deleted_at=None)
    servers: dict[uuid.UUID, list[Instance]] = {host.id: [] for host in hosts}
    for server in rows.select_related("host").defer(*UNREAD).order_by("created_at", "id")[: (MOST + 1) * len(hosts)]:
        if server.host_id is not None:
            servers[server.host_id].append(server)
    ground = Ground([way for way in known_ways(host_up=host_up) if way.name in chosen], rows=servers.values())
    plans = {}
    for host in hosts:
        kept = sorted(servers[host.id][:MOST], key=lambda each: -int(each.flavor["memory_mb"]))
        board = _Board(ground, host.id)
        plans[host.id] = Plan([board.place(server) for server in kept], len(servers[host.id]) > MOST)
    return plans


class Ground:
    """Data of several plans: the obstacles of the servers, their groups, and the hosts' records."""

    def __init__(self, chosen: Sequence[DrainWay], rows: Iterable[Sequence[Instance]]) -> None:
        servers = [server for listed in rows for server in listed]
        self.options = replace(options_now(), best=1, subset_size=1)
        self.chance = random.Random()  # noqa: S311 - spreads load, keeps no secret
        self.ways: list[tuple[DrainWay, Obstacles]] = [(way, way.obstacles(servers)) for way in chosen]
        self.estimates = {way.name: way.estimates() for way in chosen}
        self.needs = {way.name: way.needs(servers) for way in chosen}
        self.unfit = {way.name: way.unfit() for way in chosen if way.moves}
        self.groups = _groups({server.server_group_id for server in servers if server.server_group_id})
        self._hosts: dict[frozenset[str], list[HostState]] = {}

    def hosts(self, facts: frozenset[str]) -> list[HostState]:
        if facts not in self._hosts:
            self._hosts[facts] = host_states(facts)
        return self._hosts[facts]


@dataclass
class _Board:
    """Copies of the hosts' records, and the groups of the servers that are planned so far."""

    ground: Ground
    source: uuid.UUID | None
    """The host that the servers leave; None: several."""
    target: str = ""
    """Name of the only acceptable host; empty: any."""
    hosts: dict[frozenset[str], list[HostState]] = field(default_factory=dict)
    taken: list[tuple[RawId, RequestSpec]] = field(default_factory=list)
    """Host and resources of the servers that are planned so far."""
    groups: dict[uuid.UUID, dict[uuid.UUID, int]] = field(default_factory=dict)
    """Server group → host → number of its servers that are planned for it."""

    @property
    def options(self) -> Options:
        return self.ground.options

    def place(self, server: Instance) -> PlannedMove:
        """Return the first way that is possible for a server, and reserve its resources on the target."""
        refused: list[PlannedMove] = []
        for way, obstacles in self.ground.ways:
            planned_move = self._try(server, way, obstacles.get(server.id, ""))
            if planned_move.way:
                return planned_move
            refused.append(planned_move)
        return _staying(server, refused)

    def _try(self, server: Instance, way: DrainWay, obstacle: str) -> PlannedMove:
        new_disks = way.new_disks(server)
        if obstacle:
            return PlannedMove(server, reason=obstacle, new_disks=new_disks)
        if not way.moves:
            return PlannedMove(server, way.name, seconds=self.ground.estimates[way.name](server))
        spec = self.ground.needs[way.name](self._spec(server), server)
        spec = replace(spec, ignored_hosts=spec.ignored_hosts.union(self.ground.unfit[way.name](server)))
        decision = self._decide(spec)
        if not decision.ranked:
            apart = spec.group is not None and bool(self._decide(replace(spec, group=None)).ranked)
            reason = (APART if apart else "") + explain(decision)
            return PlannedMove(server, reason=reason, change=_change(decision), breaks_group=apart, new_disks=new_disks)
        chosen = decision.ranked[0].host
        self._occupy(chosen, spec, server)
        seconds = self.ground.estimates[way.name](server)
        return PlannedMove(server, way.name, chosen.name, seconds, new_disks=new_disks)

    def _spec(self, server: Instance) -> RequestSpec:
        group = self.ground.groups.get(server.server_group_id) if server.server_group_id else None
        members = self._members(group, server) if group else None
        spec = spec_of(server, group=members, root_pool=shared_pool(server))
        return replace(spec, excluded_hosts=frozenset(), requested_host=self.target, image_id=None)

    def _members(self, group: GroupSpec, server: Instance) -> GroupSpec:
        """Return the group with its planned servers as members on their targets, without servers on the host to be
        emptied.
        """
        members = {key: many for key, many in group.members.items() if key != server.host_id}
        for key, many in self.groups.get(server.server_group_id or uuid.UUID(int=0), {}).items():
            members[key] = members.get(key, 0) + many
        return GroupSpec(group.policy, members, group.most)

    def _decide(self, spec: RequestSpec) -> Decision:
        facts = frozenset(facts_needed(spec, self.options)) - {"io_ops"}
        if facts not in self.hosts:
            hosts = [host for host in self.ground.hosts(facts) if host.id != self.source]
            for raw_id, earlier in self.taken:
                _reserve(hosts, raw_id, earlier)
            self.hosts[facts] = hosts
        return decide(self.hosts[facts], spec, self.options, choose=self.ground.chance)

    def _occupy(self, host: HostState, spec: RequestSpec, server: Instance) -> None:
        self.taken.append((host.raw_id, spec))
        for hosts in self.hosts.values():
            _reserve(hosts, host.raw_id, spec)
        if server.server_group_id is not None:
            members = self.groups.setdefault(server.server_group_id, {})
            members[host.id] = members.get(host.id, 0) + 1


def _reserve(hosts: list[HostState], raw_id: RawId, spec: RequestSpec) -> None:
    for place, host in enumerate(hosts):
        if host.raw_id == raw_id:
            hosts[place] = host._replace(
                vcpus_allocated=host.vcpus_allocated + spec.vcpus,
                memory_mb_allocated=host.memory_mb_allocated + spec.memory_mb,
                disk_gb_allocated=host.disk_gb_allocated + spec.disk_gb,
                instances=host.instances + 1,
            )


def _staying(server: Instance, refused: Sequence[PlannedMove]) -> PlannedMove:
    """Return the reason why a server stays; a reason that an operator can remove has precedence."""
    if not refused:
        first = PlannedMove(server, reason=NO_WAY)
    else:
        first = next((each for each in refused if each.change), refused[0])
    at_rest = server.task_state is None and server.vm_state in AT_REST and server.vm_state != VmState.ACTIVE
    if at_rest and server.vm_state == VmState.STOPPED:
        return replace(first, idle=True, reason=f"{IDLE} {first.reason}".strip())
    return first


def _change(decision: Decision) -> str:
    last = decision.filters[-1] if decision.filters else None
    return CHANGES.get(last.name, "") if last is not None and not last.after else ""


def _groups(ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, GroupSpec]:
    """Return group → its policy and the number of its servers on each host."""
    if not ids:
        return {}
    members: dict[uuid.UUID, dict[uuid.UUID, int]] = {key: {} for key in ids}
    rows = Instance.objects.filter(server_group__in=ids, deleted_at=None, host__isnull=False).order_by()
    for key, host_id, many in rows.values_list("server_group_id", "host_id").annotate(many=Count("id")):
        if key is not None and host_id is not None:
            members[key][host_id] = many
    groups = ServerGroup.objects.filter(id__in=ids)
    return {row.id: GroupSpec(row.policy, members[row.id], row.max_server_per_host or 1) for row in groups}


def action_of_way(name: str) -> tuple[ServerAction[Any], DrainWay] | None:
    """Return the action and the way with this name; None if there is none."""
    return ways().get(name)


def plan_servers(
    servers: Sequence[Instance], host: Host, chosen: Collection[str], *, host_up: bool
) -> list[PlannedMove]:
    """Plan some servers of a host, in this order."""
    ground = Ground([way for way in known_ways(host_up=host_up) if way.name in chosen], [servers])
    board = _Board(ground, host.id)
    return [board.place(server) for server in servers]


def plan_return(servers: Sequence[Instance], host: Host) -> list[PlannedMove]:
    """Plan moves of servers from other hosts to ``host``. Each server moves in the first way that keeps its disks; a
    server without such a way is omitted.
    """
    ground = Ground([way for way in known_ways(host_up=True) if way.moves], [servers])
    board = _Board(ground, None, host.name)
    return [move for server in servers if (move := board.place(server)).way]
