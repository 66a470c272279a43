"""The parts of live migrations: hosts that can receive, commands, and the records of a running migration."""

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.certificates import tls_hostname
from compute_agent.contract.migration import (
    PORT,
    RECEIVER_TRAIT,
    KeepLiveRequest,
    ReceiveLiveRequest,
    SendLiveRequest,
)
from compute_agent.contract.moves import LIVE_POOL_TRAIT, ROOT_POOL_TRAIT
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.compute import selectors
from provisioning.compute.disks import block_devices
from provisioning.compute.host_link.allocations import second_of
from provisioning.compute.host_link.guest_spec import KERNEL, RAMDISK, guest_spec
from provisioning.compute.models import Instance, Migration
from provisioning.compute.moves import volumes
from provisioning.compute.moves.fitness import NOT_LIVE_IN_POOL, is_held_live, without_certificate
from provisioning.compute.moves.targets import MoveRequest
from provisioning.compute.records import host_commands
from provisioning.compute.records.migration_records import LIVE_MIGRATION, OPEN
from provisioning.compute.selectors.root_pools import is_in_pool, is_live_pool
from provisioning.hosts import addresses
from provisioning.hosts.models import Host, HostCommand

CANNOT_RECEIVE = "Its libvirt cannot receive running guests."
OLD_RECEIVER = "Its agent is too old to receive a running server with its root disk in a pool. Upgrade it first."
NO_IMAGE = "The server's image was deleted, so its disk cannot be created on another host."
SHARED = "Block migration can not be used with shared storage: the server has no local disk."
NOT_SHARED = (
    "The server's disk is not on shared storage: live migration can not be used without shared storage except for a"
    " server that boots from a volume and has no local disk. Use block_migration."
)
PORTS = range(1024, 65536)
"""Ports at which a host may listen for a guest."""


def unfit_targets() -> Callable[[Instance], Mapping[str, str]]:
    """Return the function that returns the name of each host that cannot receive a running guest → the reason, without
    the guest's own host. The hosts are read once.
    """
    rows = list(Host.objects.values_list("name", "traits"))
    unable = {name: CANNOT_RECEIVE for name, traits in rows if RECEIVER_TRAIT not in traits}
    older = {name: OLD_RECEIVER for name, traits in rows if ROOT_POOL_TRAIT in traits and LIVE_POOL_TRAIT not in traits}
    of_all = {**without_certificate(), **unable}
    of_pools = {**older, **of_all}

    def unfit(instance: Instance) -> Mapping[str, str]:
        hosts = of_pools if is_live_pool(instance) else of_all
        return {name: reason for name, reason in hosts.items() if name != instance.host_name}

    return unfit


def move_request(instance: Instance, host: str = "") -> MoveRequest:
    """Return the request to the scheduler. ``host``: the only acceptable host; empty: any host."""
    return MoveRequest(instance, host=host, live=True, unfit=unfit_targets()(instance))


def check_movable(instance: Instance, *, block_migration: bool | None = None) -> None:
    """Raise ConflictError or InvalidInputError for a server that cannot be migrated live to any host.

    ``block_migration``: whether the caller wants disks to be copied; None: as needed.
    """
    if is_held_live(instance):
        raise ConflictError(NOT_LIVE_IN_POOL)
    if reason := volumes.obstacles([instance.id]).get(instance.id):
        raise ConflictError(reason)
    local = has_local_disks(instance)
    if block_migration is not None and block_migration != local:
        raise InvalidInputError(NOT_SHARED if local else SHARED, field="block_migration")


def has_local_disks(instance: Instance) -> bool:
    """Whether the server has disks on its host, which are copied: its root disk unless that is in a pool, or an
    ephemeral or swap disk.
    """
    devices = block_devices.devices_of(instance.id)
    local = block_devices.local_disks(instance, devices)
    empty = local if local is not None else instance.flavor["ephemeral_gb"] or instance.flavor["swap_mb"]
    return not (block_devices.boots_from_volume(instance) or is_in_pool(instance)) or bool(empty)


def next_attempt(instance: Instance, target: Host) -> int:
    """Return the attempt of the guest on the target, which has no command to destroy it."""
    after = instance.attempt + 1
    while host_commands.has_destroy(target.id, instance.id, after):
        after += 1
    return after


def receive_request(instance: Instance, source: Host, target: Host) -> ReceiveLiveRequest:
    """Return the command for the target. Raises ConflictError when one of the server's images was deleted. A server
    whose root disk is in a pool needs none, unless it boots a kernel.
    """
    boots_kernel = any(instance.image_properties.get(name) for name in (KERNEL, RAMDISK))
    needs_image = boots_kernel or not is_in_pool(instance)
    try:
        spec: InstanceSpec = guest_spec(instance, zone=target.availability_zone, with_bits=needs_image, second=True)
    except NotFoundError as error:
        raise ConflictError(NO_IMAGE) from error
    return ReceiveLiveRequest(instance=spec, source=str(source.id))


def send_request(source: Host, target: Host, listening: Mapping[str, Any]) -> SendLiveRequest | None:
    """Return the command for the source; None if the target has reported no valid port or has no address.

    Only the port is taken from the report; the certificate must contain the target's id.
    """
    text = str(listening.get(PORT, ""))
    port = int(text) if text.isascii() and text.isdigit() and len(text) < len(str(PORTS.stop)) + 1 else 0
    address = addresses.seen_from(source, target)
    if port not in PORTS or not address:
        return None
    return SendLiveRequest(
        address=address,
        tcp_port=port,
        tls_hostname=tls_hostname(str(target.id)),
        bandwidth_mb=settings.LIVE_MIGRATION_BANDWIDTH,
        post_copy=settings.LIVE_MIGRATION_POST_COPY,
        time_limit=settings.LIVE_MIGRATION_LIMIT,
        at_limit="complete" if settings.LIVE_MIGRATION_AT_LIMIT == "complete" else "abort",
    )


# ----- a migration that runs ------------------------------------------------------------------------------------------


def target_of(instance: Instance) -> Host | None:
    row = second_of(instance.id)
    return row.host if row is not None else None


def sent(instance: Instance) -> HostCommand | None:
    """Return the newest command to the source host to send the guest, whether or not it has ended."""
    return _commands(instance, SendLiveRequest).order_by("-created_at").first()


def is_prepared(instance: Instance) -> bool:
    """Whether the target has got its command."""
    return _commands(instance, ReceiveLiveRequest).exists()


def is_receiving(instance: Instance) -> bool:
    """Whether the target has not reported the end of its command."""
    return _commands(instance, ReceiveLiveRequest).filter(finished_at=None).exists()


def may_arrive(instance: Instance) -> bool:
    """Whether the guest may run on the target, which has not reported the end, and is not forced down."""
    target = target_of(instance)
    return target is not None and not target.forced_down and is_receiving(instance)


def is_kept(instance: Instance) -> bool:
    """Whether the source has an unfinished command to resume the guest."""
    return _commands(instance, KeepLiveRequest).filter(finished_at=None).exists()


def _commands(instance: Instance, body: type) -> QuerySet[HostCommand]:
    kind = str(body.__struct_config__.tag)  # type: ignore[attr-defined] # a msgspec struct
    return host_commands.about_servers().filter(subject_id=instance.id, generation=instance.attempt, kind=kind)


def bytes_of(detail: Mapping[str, str]) -> dict[str, int]:
    """Return a host's report of progress as amounts for ``set_bytes``: bytes that are not of disks are of memory."""
    done, total, disk_done, disk_total = (
        _amount(detail.get(name)) for name in ("done", "total", "disk_done", "disk_total")
    )
    amounts: dict[str, int] = {}
    for kind, has, of in (("memory", done - disk_done, total - disk_total), ("disk", disk_done, disk_total)):
        of = max(of, 0)
        has = min(max(has, 0), of)
        amounts |= {f"{kind}_total": of, f"{kind}_processed": has, f"{kind}_remaining": of - has}
    return amounts


def _amount(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 20 else 0


def live_migrations_for(context: RequestContext, instance_id: uuid.UUID | str) -> list[Migration]:
    """Return the live migrations of a server that have not ended. Raises NotFoundError."""
    instance = selectors.instance_for(context, instance_id)
    rows = Migration.objects.filter(instance=instance, migration_type=LIVE_MIGRATION, status__in=OPEN)
    return list(rows.order_by("-id"))


def live_migration_for(context: RequestContext, instance_id: uuid.UUID | str, number: str) -> Migration:
    """Return a live migration of a server that has not ended. Raises NotFoundError."""
    instance = selectors.instance_for(context, instance_id)
    requested = int(number) if number.isascii() and number.isdigit() and len(number) < len(str(MAX_INTEGER)) else 0
    migration = Migration.objects.filter(instance=instance, id=requested).first()
    if migration is None:
        raise NotFoundError(f"Migration {number[:64]} not found for instance {instance.id}")
    if migration.migration_type != LIVE_MIGRATION:
        raise NotFoundError(f"Migration {number} for server {instance.id} is not live-migration.")
    if migration.status not in OPEN:
        raise NotFoundError(f"Migration {number} for server {instance.id} is not in progress.")
    return migration
