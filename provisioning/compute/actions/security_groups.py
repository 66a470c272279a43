"""Security groups of a server, which apply to all its interfaces."""

import uuid

from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError
from provisioning.compute.actions.interfaces import locked_instance, send_refresh
from provisioning.compute.models import Instance
from provisioning.compute.state_machine import state
from provisioning.network import selectors as network_selectors
from provisioning.network import services as network
from provisioning.network.errors import SecurityGroupNotFoundError
from provisioning.network.models import SecurityGroup


@when_broken_off
def add_security_group(context: RequestContext, instance_id: uuid.UUID | str, requested: str) -> None:
    """Add all interfaces of a server to a group of its project, by name or id, and notify its host.

    Raises NotFoundError, also for a server without an interface, and ConflictError for an ambiguous name.
    """
    with transaction.atomic():
        instance = locked_instance(context, instance_id)
        group = _group(context, instance, requested)
        if not network.add_group(instance.id, group):
            raise SecurityGroupNotFoundError(f"instance_id {instance.id} could not be found as device id on any ports")
        _changed(instance, [*(kept for kept in instance.security_groups if kept != str(group.id)), str(group.id)])


@when_broken_off
def remove_security_group(context: RequestContext, instance_id: uuid.UUID | str, requested: str) -> None:
    """Remove all interfaces of a server from a group. Raises the errors of ``add_security_group``."""
    with transaction.atomic():
        instance = locked_instance(context, instance_id)
        group = _group(context, instance, requested)
        if not network.remove_group(instance.id, group):
            raise SecurityGroupNotFoundError(
                f"Security group {requested} not associated with the instance {instance.id}", field="name"
            )
        _changed(instance, [kept for kept in instance.security_groups if kept != str(group.id)])


def _group(context: RequestContext, instance: Instance, requested: str) -> SecurityGroup:
    return network_selectors.security_group_named(context.in_project(instance.project_id), requested)


def _changed(instance: Instance, groups: list[str]) -> None:
    if not state.update(instance, {"security_groups": groups}):
        raise ConflictError("The server is changing too quickly; try again.")
    send_refresh(instance)
