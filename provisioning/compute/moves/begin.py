"""Begin a cold move of a server to another host."""

from provisioning.common.context import RequestContext
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.host_link.allocations import second_of
from provisioning.compute.launch.decisions import ALL_TAKEN
from provisioning.compute.models import Instance
from provisioning.compute.moves import cold
from provisioning.compute.moves.hosts import claim_target
from provisioning.compute.moves.targets import MoveRequest, rank_targets, why_none
from provisioning.compute.records.migration_records import set_migration
from provisioning.compute.state_machine import state


def begin_move(context: RequestContext, instance: Instance, request: MoveRequest, kind: str) -> Instance | str:
    """Claim another host for a server with the task ``resize_prep``, and send its own host the command to transfer it
    there.

    Returns the server, or the reason why no host is suitable; nothing was sent then. Raises the errors of
    ``cold.check_may_move``.
    """
    source = instance.host
    if source is None:
        raise InstanceBusyError(kind, instance.id, instance.vm_state, instance.task_state)
    cold.check_may_move(instance, source)
    found = rank_targets(request)
    migration = claim_target(context, request, found, kind)
    if migration is None:
        return why_none(found, request) or ALL_TAKEN
    sent = state.advance(instance, "migrate_disk", attempt=instance.attempt)
    second = second_of(instance.id)
    if sent is None or second is None:
        raise InstanceBusyError(kind, instance.id, instance.vm_state, instance.task_state)
    set_migration(sent.id, "migrating")
    cold.send(sent, source, second.host_id)
    return sent
