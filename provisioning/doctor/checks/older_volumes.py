"""Volumes of which hosts have seen newer changes than the records."""

import uuid
from collections.abc import Iterator
from functools import partial

from provisioning.doctor.finding import Finding, check
from provisioning.doctor.repairs import alone
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.services.attachments import HELD_BY


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


def _take_note(volume_id: uuid.UUID) -> str | None:
    many = Volume.objects.filter(id=volume_id).exclude(lost={}).update(lost={})
    return "It is reported no more." if many else None
