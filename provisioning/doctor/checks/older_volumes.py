"""Volumes of which hosts have seen newer changes than the records, or may have."""

import uuid
from collections.abc import Iterator
from functools import partial

from provisioning.common.ids import NOBODY
from provisioning.doctor.finding import Finding, check
from provisioning.doctor.repairs import alone
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.services.attachments import HELD_BY
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
    for row in Attachment.objects.filter(connector__has_key=HELD_BY).select_related("host").order_by("id"):
        sentence = f"Host {row.host} has it open for attachment {row.id}, which no record knows; nobody else is let in."
        sentence += " Delete that attachment when its server has let go."
        yield Finding("warning", f"volume {row.volume_id}", sentence, evidence=row.id)


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
