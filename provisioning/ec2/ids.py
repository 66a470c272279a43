"""EC2 ids: ``i-`` and 17 hexadecimal characters, kept in a table and drawn at random."""

import re
import secrets
import uuid
from collections.abc import Iterable

from provisioning.ec2.models import Ec2Id

_FORM = re.compile(r"([a-z-]+)-(?:[0-9a-f]{17}|[0-9a-f]{8})", re.ASCII)


def is_id(kind: str, text: str) -> bool:
    """Whether the text has the form of an id of this kind (``i``, ``vol``), the long or the old short one."""
    found = _FORM.fullmatch(text)
    return found is not None and found[1] == kind


def ids_of(kind: str, resources: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Return resource → EC2 id; those that had none get one.  One query, three more when there are new ones."""
    wanted = set(resources)
    if not wanted:
        return {}
    found = _known(kind, wanted)
    missing = wanted - found.keys()
    if missing:
        rows = [Ec2Id(ec2_id=f"{kind}-0{secrets.token_hex(8)}", kind=kind, resource_id=each) for each in missing]
        Ec2Id.objects.bulk_create(rows, ignore_conflicts=True)  # somebody else may be giving them theirs
        found |= _known(kind, missing)
    return found


def id_of(kind: str, resource: uuid.UUID) -> str:
    return ids_of(kind, [resource])[resource]


def resources_of(kind: str, ec2_ids: Iterable[str]) -> dict[str, uuid.UUID]:
    """Return EC2 id → resource, of those that were given; whose they are is for the resource's own service to say."""
    rows = Ec2Id.objects.filter(ec2_id__in=set(ec2_ids), kind=kind)
    return dict(rows.values_list("ec2_id", "resource_id"))


def _known(kind: str, resources: set[uuid.UUID]) -> dict[uuid.UUID, str]:
    rows = Ec2Id.objects.filter(kind=kind, resource_id__in=resources)
    return dict(rows.values_list("resource_id", "ec2_id"))
