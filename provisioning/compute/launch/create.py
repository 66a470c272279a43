"""Create servers: checks, quota, records, first event and the cast to the scheduler in one transaction."""

import uuid
from copy import copy
from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.database.prepared import PreparedInsert
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import OverQuotaError
from provisioning.compute.launch.checks import CheckedLaunch, check
from provisioning.compute.launch.idempotency import LaunchIdentity, identity_of
from provisioning.compute.launch.map_block_devices import lock_volumes, reserve_volumes
from provisioning.compute.launch.mounts import mounting
from provisioning.compute.launch.quote import LaunchQuote
from provisioning.compute.launch.request import LaunchRequest
from provisioning.compute.launch.reserve import reserve_servers
from provisioning.compute.models import BlockDevice, Instance, InstanceActionEvent
from provisioning.compute.records import instance_actions
from provisioning.compute.records.instance_actions import Step
from provisioning.compute.records.names import disk_name
from provisioning.compute.services.tags import write_tag_rows
from provisioning.compute.state_machine import state
from provisioning.ec2 import given
from provisioning.jobs.queue.cast import cast
from provisioning.network import services as network


def check_launch(context: RequestContext, request: LaunchRequest) -> LaunchQuote:
    """Run all checks of a launch and return the resources it would use; writes nothing. Raises the errors of
    ``launch``.
    """
    return check(context, request).quote


@when_broken_off
def launch(context: RequestContext, request: LaunchRequest) -> list[Instance]:
    """Create ``min_count`` to ``max_count`` servers, as many as the quota allows, in ``building`` / ``scheduling``.

    In one transaction, which an error rolls back:

    1. everything is checked;
    2. existing volumes are locked, then the quota is reserved;
    3. the default security group is created if missing;
    4. the records, the action and the first event are written;
    5. the schedule job is cast.

    A request that repeats the ``idempotency_key`` of an earlier one changes nothing and returns the servers of the
    earlier request. Raises InvalidInputError, ConflictError or ForbiddenError with the ``field``, and OverQuotaError.
    """
    identity = identity_of(context, request)
    try:
        return _launch(context, request, identity)
    except (IntegrityError, OverQuotaError):  # possibly caused by a concurrent repetition of the request
        made = identity.launched_before()
        if not made:
            raise
        return made


def _launch(context: RequestContext, request: LaunchRequest, identity: LaunchIdentity) -> list[Instance]:
    started = timezone.now()
    with transaction.atomic():
        made = identity.launched_before()
        if made:
            return made
        checked = check(context, request)
        lock_volumes(checked.disks.devices)
        instances = reserve_servers(context, request, checked, identity)
        groups = checked.security_groups or [str(network.ensure_default_security_group(instances[0].project_id).id)]
        disks = [_copies_of(request, instance, checked) for instance in instances]
        for instance, devices in zip(instances, disks, strict=True):
            instance.security_groups = groups
            instance.user_data = mounting(request.user_data, devices, checked.disks.mounts) or None
        _CREATE(instances)
        write_tag_rows(instances)
        given.write(instances[0].project_id, [each.id for each in instances], request.metadata_options)
        for instance, devices in zip(instances, disks, strict=True):
            _write_disks(instance, devices)
        _record_actions(context, instances, started)
        for instance in instances:
            state.announce_all(instance, [{}])
            cast("scheduler", "compute.schedule", instance_id=str(instance.id), attempt=instance.attempt)
    return instances


_CREATE = PreparedInsert(Instance)
NO_PASSWORD = {"password": "none"}
"""Detail of the first step of a launch with neither a key nor a password."""


def _copies_of(request: LaunchRequest, instance: Instance, checked: CheckedLaunch) -> list[BlockDevice]:
    """Return unsaved copies of the request's disks for one server."""
    devices = [copy(device) for device in checked.disks.devices]
    index, count = instance.launch_index, checked.quote.count
    for device in devices:
        device.id, device.instance = uuid.uuid4(), instance
        device.volume_name = disk_name(device.volume_name, instance.name, index, count, placeholder=request.placeholder)
    return devices


def _write_disks(instance: Instance, devices: list[BlockDevice]) -> None:
    """Write a server's disks and reserve existing volumes. Raises InvalidInputError."""
    if not devices:
        return
    reserve_volumes(instance, devices)
    BlockDevice.objects.bulk_create(devices)


def _record_actions(context: RequestContext, instances: list[Instance], started: datetime) -> None:
    rows = instance_actions.begin_all(context, [instance.id for instance in instances], "create", started)
    now = timezone.now()
    closed = {each.id for each in instances if not each.key_name and not each.admin_password}
    written = []
    for row in rows:
        step = Step("api_create", started, now, detail=NO_PASSWORD if row.instance_id in closed else {})
        written.append(instance_actions.row_of(row, 1, step))
    instance_actions.write(written)


def has_no_password(instance: Instance) -> bool:
    """Whether the server was launched with neither a key nor a password."""
    steps = InstanceActionEvent.objects.filter(action__instance=instance, action__action="create", name="api_create")
    return steps.filter(detail__password=NO_PASSWORD["password"]).exists()
