"""Volumes of which hosts have, or may have, newer changes than the database."""

import uuid
from collections.abc import Iterator
from functools import partial

from provisioning.common.values.ids import NOBODY
from provisioning.doctor.finding import Finding, check
from provisioning.doctor.repairs import alone
from provisioning.hosts.models import Host
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.records import holds
from provisioning.volumes.records.holds import HELD_BY
from provisioning.volumes.services.checks import MIGRATING, SWAPPING


@check("newer_volumes")
def newer() -> Iterator[Finding]:
    """Find volumes of which the database lost changes, and volumes that a host has open without a matching record."""
    for volume in Volume.objects.exclude(lost={}).order_by("id"):
        differences = " ".join(volume.lost.get("said", [])) or "No other differences were reported."
        sentence = f"Host {volume.lost.get('host')} has newer changes of it than the records, found at"
        sentence += f" {volume.lost.get('at')}. {differences}"
        repair = alone(partial(_acknowledge, volume.id))
        yield Finding("warning", f"volume {volume.id}", sentence, "Acknowledge it, and stop reporting it.", repair)
    held = Attachment.objects.filter(connector__has_key=HELD_BY).select_related(
        "host", "volume__pool", "volume__daemon_host"
    )
    for row in held.order_by("id"):
        yield Finding("warning", f"volume {row.volume_id}", _sentence(row), evidence=row.id)


def _sentence(row: Attachment) -> str:
    name = Host.objects.filter(id=holds.holder(row) or NOBODY).values_list("name", flat=True).first()
    known = f"which the records have on host {row.host}" if holds.GUEST_HOST in row.connector else "which has no record"
    sentence = f"Host {name} has it open for attachment {row.id}, {known}; no other attachment is allowed."
    if not any(row.id == each.id for each in holds.elsewhere(row.volume)):
        return f"{sentence} Delete that attachment when its server no longer uses the volume."
    daemon = (
        f", and according to the records host {row.volume.daemon_host} serves the volume"
        if row.volume.daemon_host
        else ""
    )
    return (
        f"{sentence} The restored copy is older than this attachment{daemon}. Hosts get no commands for the volume"
        f" until the attachment is released, when host {name} reports the server's disks. Otherwise delete the"
        f" attachment when its server no longer uses the volume; if host {name} is wrong, remove it from the pool:"
        f" manage.py storage_pools {row.volume.pool_id} --remove {name}"
    )


@check("undecided_volumes")
def undecided() -> Iterator[Finding]:
    """Find volumes whose guest may have switched to new data while no host reports whether it did."""
    rows = Volume.objects.filter(migration_status=SWAPPING).select_related("pool").order_by("id")
    for hidden in rows:
        volume = Volume.objects.filter(id=hidden.migration_of or NOBODY).select_related("pool").first()
        dead = Attachment.objects.filter(volume_id=hidden.id, host__forced_down=True).exists()
        if volume is None or (volume.migration_status == MIGRATING and not dead):
            continue
        sentence = (
            f"A host should have switched its server to the new data in pool {hidden.pool}, but no host reports the"
            f" result. The old data is in pool {volume.pool}."
            f" Decide: manage.py volume_data {volume.id} --keep new (or old)"
        )
        yield Finding("error", f"volume {volume.id}", sentence, evidence=str(hidden.id))


def _acknowledge(volume_id: uuid.UUID) -> str | None:
    many = Volume.objects.filter(id=volume_id).exclude(lost={}).update(lost={})
    return "It is no longer reported." if many else None
