"""Volumes of which hosts have seen newer changes than the records, or may have."""

import uuid
from collections.abc import Iterator
from functools import partial

from provisioning.common.ids import NOBODY
from provisioning.doctor.finding import Finding, check
from provisioning.doctor.repairs import alone
from provisioning.hosts.models import Host
from provisioning.volumes import holds
from provisioning.volumes.holds import HELD_BY
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.services.checks import MIGRATING, SWAPPING


@check("newer_volumes")
def newer() -> Iterator[Finding]:
    """Find what was lost with records of volumes, and attachments that are kept for somebody whom no record knows."""
    for volume in Volume.objects.exclude(lost={}).order_by("id"):
        said = " ".join(volume.lost.get("said", [])) or "Nothing else differs by what the host says."
        sentence = f"Host {volume.lost.get('host')} has seen newer changes of it than the records, found at"
        sentence += f" {volume.lost.get('at')}. {said}"
        repair = alone(partial(_take_note, volume.id))
        yield Finding("warning", f"volume {volume.id}", sentence, "Take note, and report it no more.", repair)
    held = Attachment.objects.filter(connector__has_key=HELD_BY).select_related(
        "host", "volume__pool", "volume__daemon_host"
    )
    for row in held.order_by("id"):
        yield Finding("warning", f"volume {row.volume_id}", _sentence(row), evidence=row.id)


def _sentence(row: Attachment) -> str:
    name = Host.objects.filter(id=holds.holder(row) or NOBODY).values_list("name", flat=True).first()
    known = (
        f"which the records have on host {row.host}" if holds.GUEST_HOST in row.connector else "which no record knows"
    )
    sentence = f"Host {name} has it open for attachment {row.id}, {known}; nobody else is let in."
    if not any(row.id == each.id for each in holds.elsewhere(row.volume)):
        return f"{sentence} Delete that attachment when its server has let go."
    daemon = f", and by the records it is host {row.volume.daemon_host}'s" if row.volume.daemon_host else ""
    return (
        f"{sentence} It was opened there after the copy that was restored{daemon}: no host is told anything about it."
        f" It is its server's when host {name} reports the server's disks. Else delete that attachment when its server"
        f" has let go; if host {name} is wrong, remove it from the pool: manage.py storage_pools"
        f" {row.volume.pool_id} --remove {name}"
    )


@check("undecided_volumes")
def undecided() -> Iterator[Finding]:
    """Find volumes whose guest may have gone over to new data, which nobody reports any more."""
    rows = Volume.objects.filter(migration_status=SWAPPING).select_related("pool").order_by("id")
    for hidden in rows:
        volume = Volume.objects.filter(id=hidden.migration_of or NOBODY).select_related("pool").first()
        dead = Attachment.objects.filter(volume_id=hidden.id, host__forced_down=True).exists()
        if volume is None or (volume.migration_status == MIGRATING and not dead):
            continue
        sentence = (
            f"Its server was told to go over to its new data in pool {hidden.pool}, and nobody reports whether it did."
            f" The old data are in pool {volume.pool}. Decide: manage.py volume_data {volume.id} --keep new (or old)"
        )
        yield Finding("error", f"volume {volume.id}", sentence, evidence=str(hidden.id))


def _take_note(volume_id: uuid.UUID) -> str | None:
    many = Volume.objects.filter(id=volume_id).exclude(lost={}).update(lost={})
    return "It is reported no more." if many else None
