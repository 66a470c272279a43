"""Reserve the quota of each requested server, and prepare its record."""

from typing import Any

from django.db import transaction
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import OverQuotaError
from provisioning.compute.flavors.sizes import flavor_copy
from provisioning.compute.launch.checks import CheckedLaunch
from provisioning.compute.launch.flavor_and_image import needs_config_drive, size_of
from provisioning.compute.launch.idempotency import LaunchIdentity
from provisioning.compute.launch.request import LaunchRequest
from provisioning.compute.models import Instance
from provisioning.compute.records.names import hostname_for, numbered, numbered_host
from provisioning.compute.records.passwords import sealed
from provisioning.compute.state_machine.state import deadline_of
from provisioning.network.addressing import usual_form
from provisioning.network.services import allocate_automatic
from provisioning.quotas.services.ledger import reserve

FLOATING_IPS = "floatingips"


def reserve_servers(
    context: RequestContext, request: LaunchRequest, checked: CheckedLaunch, identity: LaunchIdentity
) -> list[Instance]:
    """Reserve the quota of each server, inside the caller's transaction; returns unsaved instances.

    When the quota is full, returns the servers reserved so far if they are at least ``min_count``; otherwise raises
    OverQuotaError. Raises ConflictError when no floating IP is left for a server that gets one automatically.
    """
    count = checked.quote.count
    columns = _columns(context, request, checked, identity)
    instances: list[Instance] = []
    for index in range(count):
        instance = _instance(request, checked, columns, identity, index)
        try:
            with transaction.atomic(savepoint=count > 1):
                _reserve(checked, instance)
        except OverQuotaError:
            if index < request.min_count or count == 1:
                raise
            break
        instances.append(instance)
    return instances


def _reserve(checked: CheckedLaunch, instance: Instance) -> None:
    """Reserve the quota of one server. Its automatic floating IP is created here and has its own quota."""
    own = {name: amount for name, amount in checked.quote.amounts.items() if name != FLOATING_IPS}
    reserve(instance.project_id, instance.id, own, checked.bounds, user_id=instance.user_id)
    if checked.floating_ip_network is not None:
        allocate_automatic(instance.project_id, instance.id, checked.floating_ip_network)


def _columns(
    context: RequestContext, request: LaunchRequest, checked: CheckedLaunch, identity: LaunchIdentity
) -> dict[str, Any]:
    """Return the columns with the same values for all servers of the request."""
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
        "image_id": image.id if image else None,
        "image_name": image.name if image else "",
        "image_properties": checked.disks.properties,
        "flavor": flavor_copy(checked.quote.flavor, size_of(image), local_root=image is not None),
        "key_name": checked.key.name if checked.key else None,
        "public_key": checked.key.public_key if checked.key else None,
        "user_data": request.user_data or None,
        "metadata": checked.metadata,
        "tags": checked.tags,
        "config_drive": request.config_drive or needs_config_drive(checked.disks.properties),
        "requested_networks": checked.networks,
        "scheduler_hints": checked.place.hints,
        "injected_files": checked.injected_files,
        "admin_password": sealed(request.admin_password),
        "access_ip_v4": usual_form(request.access_ip_v4),
        "access_ip_v6": usual_form(request.access_ip_v6),
        "disk_config": request.disk_config,
        "trusted_certificates": request.trusted_certificates and list(request.trusted_certificates),
        "reservation_id": identity.reservation_id,
        "request_id": context.request_id,
        "created_at": now,
        "updated_at": now,
    }


def _instance(
    request: LaunchRequest, checked: CheckedLaunch, columns: dict[str, Any], identity: LaunchIdentity, index: int
) -> Instance:
    count, instance_id = checked.quote.count, identity.instance_id(index)
    name = numbered(checked.name, index, count, placeholder=request.placeholder)
    hostname = numbered_host(checked.hostname, index, count) if checked.hostname else hostname_for(name, instance_id)
    return Instance(id=instance_id, name=name, hostname=hostname, launch_index=index, **columns)
