"""Begin a cold move of a server to another host: its conditions, its request, and the claim of the target."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from compute_agent.contract.commands import MOVES
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.host_link import newer_guests
from provisioning.compute.host_link.allocations import second_of
from provisioning.compute.launch.decisions import ALL_TAKEN
from provisioning.compute.models import Instance
from provisioning.compute.moves import cold
from provisioning.compute.moves.fitness import OLD_IN_POOL, is_held_in_pool, without_certificate
from provisioning.compute.moves.hosts import claim_target, is_held_by_second, leave_second
from provisioning.compute.moves.targets import MoveRequest, rank_targets, why_none
from provisioning.compute.records.migration_records import set_migration
from provisioning.compute.state_machine import state
from provisioning.hosts.models import Host

OLDER = "Its agent is too old to receive servers."
EARLIER = "Host {host} has not confirmed the removal of the remains of an earlier move yet. Try again later."


def begin_move(context: RequestContext, instance: Instance, request: MoveRequest, kind: str) -> Instance | str:
    """Claim another host for a server with the task ``resize_prep``, and send its own host the command to transfer it
    there.

    Returns the server, or the reason why no host is suitable; nothing was sent then. Raises the errors of
    ``check_may_move``.
    """
    source = instance.host
    if source is None:
        raise InstanceBusyError(kind, instance.id, instance.vm_state, instance.task_state)
    check_may_move(instance, source)
    attempt = rank_targets(request)
    migration = claim_target(context, request, attempt, kind)
    if migration is None:
        return why_none(attempt, request) or ALL_TAKEN
    sent = state.advance(instance, "migrate_disk", attempt=instance.attempt)
    second = second_of(instance.id)
    if sent is None or second is None:
        raise InstanceBusyError(kind, instance.id, instance.vm_state, instance.task_state)
    set_migration(sent.id, "migrating")
    cold.send(sent, source, second.host_id)
    return sent


def check_may_move(instance: Instance, source: Host) -> None:
    """Raise ConflictError for a server that cannot leave its host now."""
    if newer_guests.open_of(instance.id):
        raise ConflictError(f"An operator has to decide about a newer guest of server {instance.id} first.")
    if source.contract_version < MOVES:
        raise ConflictError("The agent of the server's host is too old to move servers. Upgrade it first.")
    if is_held_in_pool(instance):
        raise ConflictError(OLD_IN_POOL)
    leave_second(instance)
    second = second_of(instance.id)
    if second is not None:
        raise ConflictError(EARLIER.format(host=second.host.name))


def may_move(instance: Instance) -> bool:
    """Whether the server could leave its host now, as ``check_may_move``; changes nothing."""
    source = instance.host
    if source is None or source.contract_version < MOVES or is_held_in_pool(instance):
        return False
    return not is_held_by_second(instance)


def move_request(instance: Instance, *, flavor: Mapping[str, Any] | None = None, host: str = "") -> MoveRequest:
    """Return the request of a cold move, with the hosts that cannot receive servers."""
    return MoveRequest(instance, flavor, host, unfit_hosts())


def move_requests(instance: Instance, flavors: Iterable[Mapping[str, Any]]) -> list[MoveRequest]:
    """Return the request of a cold move for each of these flavors."""
    unfit = unfit_hosts()
    return [MoveRequest(instance, flavor, "", unfit) for flavor in flavors]


def unfit_hosts() -> Mapping[str, str]:
    """Return the names of hosts that cannot receive servers, each with the reason."""
    older = Host.objects.filter(contract_version__lt=MOVES).values_list("name", flat=True)
    return {**without_certificate(), **dict.fromkeys(older, OLDER)}


def unfit_targets() -> Callable[[Instance], Mapping[str, str]]:
    """Return the function that returns the hosts that cannot receive a server: the same ones for all servers."""
    unfit = unfit_hosts()
    return lambda _: unfit
