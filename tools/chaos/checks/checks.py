"""The conditions after a run has settled: no operation is running, the doctor finds nothing, and the hosts match the
records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django_q.models import OrmQ

from compute_agent.contract.network import FLOATING_IP, NETWORK, ROUTER, SECURITY_GROUP
from compute_agent.contract.volume import VOLUME, VOLUME_COPY
from provisioning.compute.actions.reset_state import BY_HAND, ResetState
from provisioning.compute.host_link.newer_guests import is_current
from provisioning.compute.launch.builds import BUILD_KINDS
from provisioning.compute.models import Allocation, Instance, InstanceAction, Migration, MoveAllocation
from provisioning.compute.records.migration_records import OPEN
from provisioning.compute.states import PowerState, VmState
from provisioning.doctor.checks.allocations import AT_A_HOST, PLACED, STILL_PLACED
from provisioning.doctor.examinations.examination import findings
from provisioning.doctor.finding import Finding
from provisioning.drains.models import Drain
from provisioning.hosts.models import Host, HostCommand
from provisioning.images.models import Image
from provisioning.network.delivery import documents
from provisioning.network.models import DeliveryMark, FloatingIP, Network, Port, Router, SecurityGroup
from tools.chaos.checks import volume_checks
from tools.chaos.checks.journals import Domain, Overlap, Seen
from tools.chaos.checks.wrongs import wrong
from tools.chaos.clients.ec2 import INTERFACE
from tools.chaos.clients.networks import OURS, PREFIX
from tools.chaos.clients.networks import ROUTER as CHAOS_ROUTER

OFF = {PowerState.NOSTATE, PowerState.SHUTDOWN, PowerState.CRASHED}
POWER = {
    VmState.ACTIVE: {PowerState.RUNNING},
    VmState.STOPPED: OFF,
    VmState.PAUSED: {PowerState.PAUSED},
    VmState.RESCUED: {PowerState.RUNNING, PowerState.SHUTDOWN},
    VmState.SUSPENDED: {PowerState.SHUTDOWN, PowerState.SUSPENDED},
    VmState.SHELVED: OFF,
}
"""vm_state → possible power states of the domain. A rescued server whose host was powered off stays rescued."""
REMOVED_WITHIN = timedelta(seconds=5)
"""Time in which a host that was silent removes a guest that now runs elsewhere, from its first contact on."""
OWN = Q(name__startswith=PREFIX)
"""A condition for the networks that the run's projects create."""
_PAUSING = {PowerState.RUNNING, PowerState.PAUSED, VmState.ACTIVE, VmState.PAUSED}


def name_of(row: Instance) -> str:
    """Return a server's name and states, for a sentence."""
    return f"{row.name} ({row.vm_state}/{row.task_state or '-'})"


def settled(seen: Seen) -> list[Finding]:
    """Return the errors of a cloud that is at rest."""
    return [*under_way(), *examined(seen), *domains(seen), *reported(seen), *volume_checks.everywhere(seen)]


def empty(seen: Seen) -> list[Finding]:
    """Return the errors after all servers were deleted: remaining servers, allocations and resources on hosts, and all
    errors of a cloud at rest.
    """
    left = [wrong(str(row.id), f"{name_of(row)} is not deleted.") for row in _alive()]
    left += [wrong(str(row.instance_id), "It still has an allocation.") for row in Allocation.objects.all()]
    left += [wrong(str(row.instance_id), "Its move still has an allocation.") for row in MoveAllocation.objects.all()]
    left += [wrong(uuid, f"Host {host} still has something of it.") for uuid, host in seen.kept.items()]
    paused = Drain.objects.select_related("host").filter(finished_at=None)
    left += [wrong(f"host {drain.host.name}", "Its drain has not ended.") for drain in paused]
    return left + settled(seen)


def without_volumes(seen: Seen) -> list[Finding]:
    """Return the errors after all servers and volumes were deleted."""
    return [*volume_checks.left(seen), *empty(seen)]


def without_networks(seen: Seen) -> list[Finding]:
    """Return the errors after the projects' networks were also deleted: no host may still have a network resource."""
    left = [
        wrong(f"host {host}", f"It still knows of {sorted(known)[0]}.")
        for host, known in seen.reported.items()
        if known
    ]
    left += [wrong(f"network {row.id}", f"{row.name} is not deleted.") for row in Network.objects.filter(OWN)]
    left += [wrong(f"floating IP {row.id}", f"{row.address} is not released.") for row in FloatingIP.objects.all()]
    left += [
        wrong(f"router {row.id}", f"{row.name} is not deleted.") for row in Router.objects.filter(name=CHAOS_ROUTER)
    ]
    left += [
        wrong(f"port {row.id}", "It is not deleted.") for row in Port.objects.filter(description__endswith=INTERFACE)
    ]
    left += [wrong(f"group {row.id}", f"{row.name} is not deleted.") for row in SecurityGroup.objects.filter(name=OURS)]
    return left + without_volumes(seen)


def _alive() -> Iterator[Instance]:
    yield from Instance.objects.exclude(vm_state=VmState.DELETED).select_related("host").order_by("id")


# ----- rest -----------------------------------------------------------------------------------------------------------


def under_way() -> Iterator[Finding]:
    """Yield the operations that are still running. They are errors only in a cloud that should be at rest."""
    for host in Host.objects.filter(connected=False):
        yield wrong(f"host {host.name}", "It is not connected.")
    for row in _alive():
        if row.task_state is not None or row.vm_state == VmState.BUILDING:
            yield wrong(str(row.id), f"{name_of(row)} is still on its way; its deadline is {row.task_deadline}.")
    for mark in DeliveryMark.objects.all():
        yield wrong(f"{mark.kind} {mark.subject_id}", "Hosts still have to be notified of it.")
    for message in OrmQ.objects.exclude(key__startswith="ping:"):
        yield wrong(f"message {message.id}", f"It is still in the queue {message.key}.")
    given_up = Q(subject_kind__in=[VOLUME, VOLUME_COPY], deadline__lt=timezone.now())
    for command in HostCommand.objects.filter(finished_at=None).exclude(given_up).order_by("created_at"):
        taken = "taken" if command.acknowledged_at else "not taken"
        sentence = f"Its command {command.kind} of {command.created_at} has not ended ({taken})."
        yield wrong(str(command.subject_id), sentence)
    for held in Allocation.objects.exclude(instance__in=Instance.objects.filter(PLACED | STILL_PLACED)):
        yield wrong(str(held.instance_id), "It still has an allocation on a host.")
    for port in Port.objects.filter(leaving=True):
        yield wrong(str(port.device_id), f"Its port {port.id} is still leaving.")
    for image in Image.objects.filter(status__in=[Image.Status.QUEUED, Image.Status.SAVING]):
        yield wrong(f"image {image.id}", f"{image.name} is still {image.status}.")
    yield from _moves()
    yield from volume_checks.under_way()


def _moves() -> Iterator[Finding]:
    """Yield the drains and moves that have not ended, except moves that wait for a confirmation, and paused drains."""
    for drain in Drain.objects.select_related("host").filter(finished_at=None).exclude(state=Drain.State.PAUSED):
        yield wrong(f"host {drain.host.name}", f"Its drain is still {drain.state}.")
    waiting = Q(instance__vm_state=VmState.RESIZED, instance__task_state=None, status="finished")
    for row in Migration.objects.filter(status__in=(*OPEN, "done")).exclude(waiting).order_by("id"):
        yield wrong(str(row.instance_id), f"Its {row.migration_type} {row.id} is still {row.status}.")
    for held in MoveAllocation.objects.select_related("host").exclude(instance__vm_state=VmState.RESIZED):
        yield wrong(str(held.instance_id), f"Its move still has an allocation on host {held.host.name}.")


def examined(seen: Seen) -> Iterator[Finding]:
    """Yield the doctor's findings, without notes and without findings that a reset of a server's state explains, or
    frames that arrived late, together or twice.
    """
    expected = {f"instance {uuid}" for uuid in called_active_and_never_built(seen)}
    for found in findings():
        reset = found.check == "guests" and found.subject in expected
        late = found.check == "samples" and found.sentence.endswith(" of its frames were too early.")
        if found.severity != "note" and not reset and not late:
            yield found


def _actions(*names: str) -> QuerySet[InstanceAction]:
    return InstanceAction.objects.filter(action__in=names)


def _by_hand() -> set[str]:
    """Return the servers whose state an operator has set."""
    return {str(row) for row in _actions(ResetState.record).values_list("instance_id", flat=True)}


def called_active_and_never_built(seen: Seen) -> set[str]:
    """Return the servers whose build was aborted by an operator's reset of the state, and that have no guest. The
    doctor reports them correctly.
    """
    builds = {kind.action for kind in BUILD_KINDS}
    cut_off = {str(row) for row in _actions(*builds).filter(message=BY_HAND).values_list("instance_id", flat=True)}
    off = Instance.objects.filter(vm_state=VmState.STOPPED, power_state=PowerState.NOSTATE)
    return {str(row) for row in off.values_list("id", flat=True)} & cut_off & _by_hand() - seen.domains.keys()


# ----- what hosts have ------------------------------------------------------------------------------------------------


def domains(seen: Seen) -> Iterator[Finding]:
    """Compare the domains, interfaces and remaining resources on the hosts with the servers."""
    yield from _twice(seen)
    placed = {str(row) for row in Instance.objects.filter(PLACED | STILL_PLACED).values_list("id", flat=True)}
    yield from _elsewhere(seen, placed)
    macs, by_hand = defaultdict(set), _by_hand()
    for device, mac in Port.objects.exclude(device_id=None).values_list("device_id", "mac_address"):
        macs[str(device)].add(mac)
    for uuid in (seen.domains.keys() | seen.kept.keys()) - placed:
        where = seen.domains[uuid][0] if uuid in seen.domains else seen.kept[uuid]
        yield wrong(uuid, f"Host {where} still has something of it.")
    for row in _alive():
        uuid = str(row.id)
        if uuid in placed:
            sentence = _domain(row, seen.domains.get(uuid), by_hand=uuid in by_hand)
            if sentence:
                yield wrong(uuid, f"{name_of(row)} {sentence}")
        if row.vm_state in AT_A_HOST and uuid in seen.domains:
            interfaces = set(seen.domains[uuid][1].get("interfaces", []))
            if interfaces != macs[uuid]:
                sentence = f"{name_of(row)} has {sorted(interfaces)} and the ports {sorted(macs[uuid])}."
                yield wrong(uuid, sentence)


def _twice(seen: Seen) -> Iterator[Finding]:
    for uuid, overlaps in seen.twice.items():
        for overlap in overlaps:
            if not _is_of_silent_host(uuid, overlap):
                yield wrong(uuid, f"Its guest ran on {overlap}.")


def _is_of_silent_host(uuid: str, overlap: Overlap) -> bool:
    """Whether two guests without volumes ran because the older one's host was silent: it counted as down, the command
    to remove its guest was waiting for it, and it has removed the guest soon after it has got the command.
    """
    if overlap.has_volumes or overlap.ended is None or overlap.silence <= settings.HOST_DOWN_AFTER:
        return False
    hosts = Host.objects.filter(name=overlap.hosts[0]).values_list("id", flat=True)
    removals = HostCommand.objects.filter(host_id__in=hosts, subject_id=uuid, kind="destroy_request")
    waiting = removals.filter(created_at__lte=_moment(overlap.began), acknowledged_at__gte=_moment(overlap.began))
    contacts = list(waiting.order_by("acknowledged_at").values_list("acknowledged_at", flat=True)[:1])
    return any(_moment(overlap.ended) <= at + REMOVED_WITHIN for at in contacts if at is not None)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _elsewhere(seen: Seen, placed: Collection[str]) -> Iterator[Finding]:
    """Yield the servers that have resources on a host that is neither their own nor the other host of their move."""
    second = {str(row.instance_id): row.host.name for row in MoveAllocation.objects.select_related("host")}
    for row in _alive():
        uuid = str(row.id)
        others = seen.holders.get(uuid, frozenset()) - {row.host_name, second.get(uuid)}
        if uuid in placed and others:
            yield wrong(uuid, f"{name_of(row)} is on host {row.host_name}; {', '.join(others)} has something of it.")


def _domain(row: Instance, found: tuple[str, Domain] | None, *, by_hand: bool) -> str:
    """Describe the error in the domain of a server; empty when it is correct.

    If an operator has set the state, only the power state in the records must match the domain: a server that was set
    to active may be paused, or may never have been built. The same applies if the host completed a pause or unpause
    after the command had timed out: as in Nova, the server keeps its state and shows the new power state.
    """
    wanted = row.host.name if row.host else "no host"
    if found is None:
        known = by_hand and row.vm_state == VmState.STOPPED and row.power_state == PowerState.NOSTATE
        return f"has no domain on {wanted}." if row.vm_state in AT_A_HOST and not known else ""
    host, domain = found
    if host != wanted:
        return f"has its domain on {host}, not on {wanted}."
    power = PowerState(domain["power"])
    known = power == row.power_state and (by_hand or {power, row.vm_state} <= _PAUSING)
    if not known and power not in POWER.get(VmState(row.vm_state), {power}):
        return f"has a domain in power state {power.name}."
    if not is_current(row, domain["attempt"]):
        return f"has a domain of attempt {domain['attempt']}, and is at attempt {row.attempt}."
    return ""


# ----- what hosts know of networks ------------------------------------------------------------------------------------

MODELS: Mapping[str, Any] = {NETWORK: Network, ROUTER: Router, FLOATING_IP: FloatingIP, SECURITY_GROUP: SecurityGroup}


def reported(seen: Seen) -> Iterator[Finding]:
    """Compare the network specs that hosts have received with the current records: the specs determine which packets
    pass.
    """
    if not seen.reported:
        return
    names = dict(Host.objects.values_list("id", "name"))
    wanted: dict[str, dict[tuple[str, str], object]] = defaultdict(dict)
    with transaction.atomic():
        for kind, model in MODELS.items():
            for key in model.objects.values_list("id", flat=True):
                for host_id, request in documents.of(kind, key).items():
                    wanted[names[host_id]][kind, str(key)] = getattr(request, request.__struct_fields__[0])
        transaction.set_rollback(True)  # the check must not change anything
    for host, known in seen.reported.items():
        for kind, key in sorted(wanted[host].keys() | known.keys()):
            should, does = wanted[host].get((kind, key)), known.get((kind, key))
            if should != does:
                words = "knows of it, and should not" if should is None else "knows it as it was"
                words = "does not know of it" if does is None else words
                yield wrong(f"{kind} {key}", f"Host {host} {words}.")
