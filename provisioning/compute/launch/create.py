"""Launching: checks, quota, records, first event and the cast to the scheduler in one transaction."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import OverQuotaError
from provisioning.common.retry import when_broken_off
from provisioning.compute import instance_actions, state
from provisioning.compute.deadlines import deadline_of
from provisioning.compute.launch import checks
from provisioning.compute.launch.checks import CheckedLaunch, LaunchQuote
from provisioning.compute.launch.idempotency import instance_id, launched_before, reservation_id
from provisioning.compute.launch.request import LaunchRequest
from provisioning.compute.models import Instance, InstanceAction
from provisioning.compute.names import hostname_for, numbered, numbered_host
from provisioning.compute.passwords import sealed
from provisioning.compute.services.tags import write_tag_rows
from provisioning.compute.sizes import flavor_copy
from provisioning.jobs.cast import cast
from provisioning.network import services as network
from provisioning.quotas.services.ledger import reserve


def check_launch(context: RequestContext, request: LaunchRequest) -> LaunchQuote:
    """Run every check of a launch and say what it would take; nothing is written.  Raises what ``launch`` raises."""
    return checks.check(context, request).quote


@when_broken_off
def launch(context: RequestContext, request: LaunchRequest) -> list[Instance]:
    """Accept a launch: ``min_count`` to ``max_count`` servers, as many as the quota allows, in ``building`` /
    ``scheduling``.

    In one transaction: 1. every part is checked; 2. the quota is reserved; 3. the default security group is there; 4.
    the records, the action and the first event are written; 5. the scheduler is cast to.  An error leaves nothing
    behind.

    A request that repeats the ``idempotency_key`` of an earlier one changes nothing and returns what that one made.

    Raises InvalidInputError, ConflictError or ForbiddenError with the ``field`` it is about, and OverQuotaError.
    """
    try:
        return _launch(context, request)
    except (IntegrityError, OverQuotaError):  # the same request, at the same moment, took the ids or the last place
        made = launched_before(context, request)
        if not made:
            raise
        return made


def _launch(context: RequestContext, request: LaunchRequest) -> list[Instance]:
    started = timezone.now()
    with transaction.atomic():
        made = launched_before(context, request)
        if made:
            return made
        checked = checks.check(context, request)
        instances = _reserve(context, request, checked)
        groups = checked.security_groups or [str(network.ensure_default_security_group(instances[0].project_id).id)]
        for instance in instances:
            instance.security_groups = groups
        Instance.objects.bulk_create(instances)
        write_tag_rows(instances)
        _record_actions(context, instances, started)
        for instance in instances:
            state.announce_all(instance, [{}])
            cast("scheduler", "compute.schedule", instance_id=str(instance.id), attempt=instance.attempt)
    return instances


def _reserve(context: RequestContext, request: LaunchRequest, checked: CheckedLaunch) -> list[Instance]:
    """Reserve the quota of each server; past ``min_count`` a full quota ends the list, before it the request."""
    count = checked.quote.count
    columns = _columns(context, request, checked)
    instances: list[Instance] = []
    for index in range(count):
        instance = _instance(request, checked, columns, index, count)
        try:
            with transaction.atomic(savepoint=count > 1):
                reserve(instance.project_id, instance.id, checked.quote.amounts, checked.quote.limits)
        except OverQuotaError:
            if index < request.min_count or count == 1:
                raise
            break
        instances.append(instance)
    return instances


def _columns(context: RequestContext, request: LaunchRequest, checked: CheckedLaunch) -> dict[str, Any]:
    """Return what all servers of the request share."""
    now = timezone.now()
    image = checked.quote.image
    return {
        "project_id": context.project_id,
        "user_id": context.user_id,
        "description": checked.description,
        "attempt": 1,
        "task_deadline": deadline_of("scheduling", now),
        "availability_zone": checked.place.zone,
        "requested_host": checked.place.host,
        "server_group": checked.server_group,
        "image_id": image.id,
        "image_name": image.name,
        "image_properties": {str(key): str(value) for key, value in image.properties.items()},
        "flavor": flavor_copy(checked.quote.flavor, max(image.virtual_size or 0, image.size or 0)),
        "key_name": checked.key.name if checked.key else None,
        "public_key": checked.key.public_key if checked.key else None,
        "user_data": request.user_data or None,
        "metadata": checked.metadata,
        "tags": checked.tags,
        "config_drive": request.config_drive,
        "requested_networks": checked.networks,
        "scheduler_hints": checked.place.hints,
        "injected_files": checked.injected_files,
        "admin_password": sealed(request.admin_password),
        "access_ip_v4": request.access_ip_v4,
        "access_ip_v6": request.access_ip_v6,
        "disk_config": request.disk_config,
        "trusted_certificates": request.trusted_certificates and list(request.trusted_certificates),
        "reservation_id": reservation_id(context, request),
        "request_id": context.request_id,
        "created_at": now,
        "updated_at": now,
    }


def _instance(
    request: LaunchRequest, checked: CheckedLaunch, columns: dict[str, Any], index: int, count: int
) -> Instance:
    identity = instance_id(request, columns["reservation_id"], index)
    name = numbered(checked.name, index, count)
    hostname = numbered_host(checked.hostname, index, count) if checked.hostname else hostname_for(name, identity)
    return Instance(id=identity, name=name, hostname=hostname, launch_index=index, **columns)


def _record_actions(context: RequestContext, instances: list[Instance], started: datetime) -> None:
    rows = InstanceAction.objects.bulk_create(
        InstanceAction(
            instance=instance,
            action="create",
            request_id=context.request_id,
            user_id=context.user_id,
            project_id=context.project_id,
            started_at=started,
        )
        for instance in instances
    )
    span = instance_actions.since(started)
    instance_actions.write([instance_actions.step(row, "api_create", span, attempt=1) for row in rows])
