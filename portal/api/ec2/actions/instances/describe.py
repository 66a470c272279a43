"""DescribeInstances and DescribeInstanceStatus."""

from itertools import groupby
from typing import Any

from django.utils import timezone

from portal.api.ec2 import names, paging
from portal.api.ec2.actions.instances import related as reading
from portal.api.ec2.actions.instances import shapes, states
from portal.api.ec2.actions.instances.filtered import FILTERS, STATUS_FILTERS, Found
from portal.api.ec2.protocol import errors
from portal.api.ec2.registry import Call, action
from provisioning.compute.models import Instance
from provisioning.compute.selectors import is_alive
from provisioning.compute.states import VmState
from provisioning.ec2 import ids

_ORDER = ("created_at", "reservation_id", "launch_index", "id")
"""This order keeps the instances of one launch adjacent."""


@action(
    "DescribeInstances",
    "os_compute_api:servers:detail",
    takes="InstanceIds Filters MaxResults NextToken IncludeManagedResources",
)
def describe_instances(call: Call) -> dict[str, Any]:
    """Show the project's instances grouped by launch, including instances terminated in the last hour."""
    given = call.get("InstanceIds", [])
    if given and call.get("MaxResults"):
        raise errors.combination("The parameter instancesSet cannot be used with the parameter maxResults")
    rows = reading.visible_rows(call.context)
    shown, token = paging.described(call, names.INSTANCE, given, rows, _shaped, FILTERS, _ORDER)
    groups = groupby(shown, key=lambda each: each.instance.reservation_id)
    return {"Reservations": [_reservation(list(members)) for _, members in groups], "NextToken": token}


def _reservation(members: list[Found]) -> dict[str, Any]:
    instance = members[0].instance
    return {
        "ReservationId": instance.reservation_id,
        "OwnerId": instance.project_id.hex,
        "Groups": [],
        "Instances": [each.shape for each in members],
    }


def _shaped(instances: list[Instance]) -> list[Found]:
    related = reading.related(instances)
    return [Found(instance, shapes.instance_shape(instance, related)) for instance in instances]


@action(
    "DescribeInstanceStatus",
    "os_compute_api:servers:detail",
    takes="InstanceIds Filters MaxResults NextToken IncludeAllInstances",
)
def describe_instance_status(call: Call) -> dict[str, Any]:
    """Show the status of the running instances, with ``IncludeAllInstances`` of all instances, and of their hosts."""
    every, given = call.get("IncludeAllInstances", False), call.get("InstanceIds", [])

    def shaped(instances: list[Instance]) -> list[Found | None]:
        known = ids.ids_of(names.INSTANCE.prefix, [instance.id for instance in instances])
        return [
            Found(instance, _status(instance, known[instance.id]))
            if every or states.name_of(instance) == states.RUNNING
            else None
            for instance in instances
        ]

    rows = reading.visible_rows(call.context)
    shown, token = paging.described(call, names.INSTANCE, given, rows, shaped, STATUS_FILTERS, _ORDER)
    return {"InstanceStatuses": [each.shape for each in shown], "NextToken": token}


def _status(instance: Instance, ec2_id: str) -> dict[str, Any]:
    state = states.name_of(instance)
    running = state == states.RUNNING
    well = running and instance.vm_state != VmState.ERROR
    hosted = instance.host is not None and is_alive(instance.host, timezone.now())
    return {
        "InstanceId": ec2_id,
        "AvailabilityZone": shapes.zone_of(instance),
        "InstanceState": states.shape(state),
        "InstanceStatus": _check("ok" if well else "impaired", running=running),
        "SystemStatus": _check("ok" if hosted else "impaired", running=running),
        "Events": [],
    }


def _check(status: str, *, running: bool) -> dict[str, Any]:
    """Return the status of an instance or its host; it is ``not-applicable`` unless the instance is running."""
    if not running:
        return {"Status": "not-applicable", "Details": []}
    passed = "passed" if status == "ok" else "failed"
    return {"Status": status, "Details": [{"Name": "reachability", "Status": passed}]}
