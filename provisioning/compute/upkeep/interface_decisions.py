"""Decisions of operators about differences between the interfaces of a guest and of its record."""

import msgspec
from django.db import transaction

from compute_agent.contract.build import GuestInterface, NetworkRef, PortRef, Segment
from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError
from provisioning.compute.actions.interfaces import send_attach, send_detach, send_refresh
from provisioning.compute.models import Instance, InterfaceDifference
from provisioning.compute.state_machine import state
from provisioning.compute.upkeep.adoption import RULE
from provisioning.compute.upkeep.kept_interfaces import EXTRA, GIVEN_BACK, MISSING, add_reported
from provisioning.identity import policy
from provisioning.network.selectors.instances import TAP_LENGTH

OTHERWISE = "The difference between guest and record has changed."
BUSY = "The server has a task; try again later."


@when_broken_off
def add_to_record(context: RequestContext, row: InterfaceDifference) -> None:
    """Add the guest's interface to the server's record. Raises ForbiddenError, and ConflictError with the reason."""
    policy.enforce(context, RULE)
    with transaction.atomic():
        instance = _locked(row, EXTRA)
        if reason := add_reported(instance, _interface(row)):
            raise ConflictError(reason)
        row.delete()
        send_refresh(instance)


@when_broken_off
def unplug(context: RequestContext, row: InterfaceDifference) -> None:
    """Unplug the interface from the guest. Raises ForbiddenError, ConflictError."""
    policy.enforce(context, RULE)
    with transaction.atomic():
        instance, interface = _locked(row, EXTRA), _interface(row)
        if row.port_id is None:
            raise ConflictError("The host does not know which port it is: rebuild the server.")
        network = NetworkRef(
            id=interface.network_id, name="", bridge="", cidr="0.0.0.0/32", gateway=None, segment=Segment(type="local")
        )
        key = str(row.port_id)
        port = PortRef(id=key, mac_address=row.mac_address, tap=f"tap{key[:TAP_LENGTH]}", network=network, fixed_ips=[])
        send_detach(instance, port)
        row.delete()


@when_broken_off
def plug_in(context: RequestContext, row: InterfaceDifference) -> None:
    """Plug the interface into the guest again. Raises ForbiddenError, ConflictError."""
    policy.enforce(context, RULE)
    with transaction.atomic():
        send_attach(_locked(row, MISSING), str(row.port_id))
        row.delete()


def acknowledge(context: RequestContext, row: InterfaceDifference) -> None:
    """Delete the row of a restored interface. Raises ForbiddenError, and ConflictError while the guest still differs
    from the record.
    """
    policy.enforce(context, RULE)
    if not InterfaceDifference.objects.filter(pk=row.pk, kind=GIVEN_BACK).delete()[0]:
        raise ConflictError("Decide first.")


def _locked(row: InterfaceDifference, kind: InterfaceDifference.Kind) -> Instance:
    """Lock the server and return it. Raises ConflictError when the difference has changed or the server has a task."""
    state.lock([row.instance_id])
    instance = Instance.objects.select_related("host").filter(id=row.instance_id, host_id=row.host_id).first()
    if instance is None or not InterfaceDifference.objects.filter(pk=row.pk, kind=kind).exists():
        raise ConflictError(OTHERWISE)
    if instance.task_state is not None:
        raise ConflictError(BUSY)
    return instance


def _interface(row: InterfaceDifference) -> GuestInterface:
    return msgspec.convert(row.said, GuestInterface)
