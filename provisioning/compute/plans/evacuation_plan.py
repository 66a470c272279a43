"""A plan of the evacuation of a host: where each of its servers would be built, or why it would not.

The plan uses the checks of evacuations and the scheduler, on copies of the hosts' records in which every planned server
takes its room. It changes nothing, so it also answers for a host that is up.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from provisioning.common.errors import NovellaError
from provisioning.compute.actions.evacuate import check_parts, may_be_evacuated
from provisioning.compute.disks import block_devices
from provisioning.compute.launch.decisions import options_now
from provisioning.compute.models import Instance
from provisioning.compute.selectors.host_rows import host_states
from provisioning.compute.selectors.request_specs import spec_of
from provisioning.hosts.models import Host
from provisioning.scheduler import GroupSpec, HostState, Options, RequestSpec, decide, explain, facts_needed

MOST = 1000
"""Maximum number of servers of a plan."""
NOT_IN_STATE = "It is {state}: only active and stopped servers, and those in error, are evacuated."
NEVER_BUILT = "It has never been built."
BUSY = "It has a task in progress ({task})."
APART = "Its server group does not allow it. "


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """One server of the plan. ``target`` is the name of a host, empty if it stays; then ``reason`` says why."""

    instance: Instance
    target: str = ""
    reason: str = ""
    breaks_group: bool = False
    """Whether only its server group prevents the move."""
    new_disks: bool = False
    """Whether disks of the server are created again from its image."""


@dataclass(frozen=True, slots=True)
class EvacuationPlan:
    """The plan of a host, in the order of the moves; ``more``: the host has more servers than the plan."""

    moves: Sequence[PlannedMove]
    more: bool = False

    @property
    def going(self) -> list[PlannedMove]:
        return [move for move in self.moves if move.target]

    @property
    def apart(self) -> list[PlannedMove]:
        return [move for move in self.moves if move.breaks_group]

    @property
    def staying(self) -> list[PlannedMove]:
        """Return the servers that cannot move for another reason than their group."""
        return [move for move in self.moves if not move.target and not move.breaks_group]


def plan_evacuation(host: Host) -> EvacuationPlan:
    """Plan the evacuation of all servers of a host that are not deleted, the largest first; for operators."""
    rows = Instance.objects.filter(host=host, deleted_at=None).order_by("created_at", "id")[: MOST + 1]
    servers = sorted(rows[:MOST], key=lambda each: -int(each.flavor["memory_mb"]))
    board = _Board(options_now())
    return EvacuationPlan([board.place(server, host) for server in servers], len(rows) > MOST)


@dataclass
class _Board:
    """Copies of the hosts' records, and the groups of the servers that are planned so far."""

    options: Options
    hosts: dict[frozenset[str], list[HostState]] = field(default_factory=dict)
    taken: dict[uuid.UUID, tuple[int, int, int, int]] = field(default_factory=dict)
    """Host → vCPUs, MiB, GiB and number of the servers that are planned for it."""
    groups: dict[uuid.UUID, dict[uuid.UUID, int]] = field(default_factory=dict)
    """Server group → host → number of its servers that are planned for it."""

    def place(self, server: Instance, source: Host) -> PlannedMove:
        """Return where a server would be built, and reserve its room there."""
        new_disks = not block_devices.boots_from_volume(server)
        if reason := _obstacle(server, source):
            return PlannedMove(server, reason=reason, new_disks=new_disks)
        spec = self._with_group(spec_of(server, excluded=[source.id]), server)
        spec = replace(spec, requested_host="", image_id=None)
        decision = decide(self._hosts_for(spec), spec, self.options)
        if not decision.ranked:
            apart = spec.group is not None and bool(self._without_group(spec))
            reason = (APART if apart else "") + explain(decision)
            return PlannedMove(server, reason=reason, breaks_group=apart, new_disks=new_disks)
        chosen = decision.ranked[0].host
        self._take(chosen.id, spec, server)
        return PlannedMove(server, chosen.name, new_disks=new_disks)

    def _hosts_for(self, spec: RequestSpec) -> list[HostState]:
        """Return the hosts with the room that the plan has left."""
        facts = frozenset(facts_needed(spec, self.options)) - {"io_ops"}
        if facts not in self.hosts:
            self.hosts[facts] = host_states(facts)
        return [self._less(host) for host in self.hosts[facts]]

    def _less(self, host: HostState) -> HostState:
        vcpus, memory, disk, many = self.taken.get(host.id, (0, 0, 0, 0))
        if not many:
            return host
        return host._replace(
            vcpus_allocated=host.vcpus_allocated + vcpus,
            memory_mb_allocated=host.memory_mb_allocated + memory,
            disk_gb_allocated=host.disk_gb_allocated + disk,
            instances=host.instances + many,
        )

    def _without_group(self, spec: RequestSpec) -> Sequence[object]:
        free = replace(spec, group=None)
        return decide(self._hosts_for(free), free, self.options).ranked

    def _with_group(self, spec: RequestSpec, server: Instance) -> RequestSpec:
        """Count the planned servers of the group as members; those that still wait on the old host are none."""
        if spec.group is None or server.server_group_id is None:
            return spec
        planned: Mapping[uuid.UUID, int] = self.groups.get(server.server_group_id, {})
        members = {key: many for key, many in spec.group.members.items() if key != server.host_id}
        for key, many in planned.items():
            members[key] = members.get(key, 0) + many
        return replace(spec, group=GroupSpec(spec.group.policy, members, spec.group.most))

    def _take(self, host_id: uuid.UUID, spec: RequestSpec, server: Instance) -> None:
        vcpus, memory, disk, many = self.taken.get(host_id, (0, 0, 0, 0))
        self.taken[host_id] = (vcpus + spec.vcpus, memory + spec.memory_mb, disk + spec.disk_gb, many + 1)
        if server.server_group_id is not None:
            members = self.groups.setdefault(server.server_group_id, {})
            members[host_id] = members.get(host_id, 0) + 1


def _obstacle(server: Instance, source: Host) -> str:
    """Return why a server cannot leave the host whatever room there is; empty if it can."""
    if server.task_state is not None:
        return BUSY.format(task=server.task_state)
    if server.launched_at is None:
        return NEVER_BUILT
    if not may_be_evacuated(server):
        return NOT_IN_STATE.format(state=server.vm_state.replace("_", " "))
    try:
        check_parts(server, source)
    except NovellaError as error:
        return error.message
    return ""
