"""EC2 ids: ``i-`` and 17 hexadecimal characters, kept in a table.

A resource gets the first 17 of its UUID, which its host tells the guest too (``compute_agent.metadata``), or random
ones when another of its kind has these already.
"""

import re
import secrets
import uuid
from collections.abc import Iterable, Mapping

from django.db.models import CharField, Q, UUIDField

from provisioning.common.lookups import Among, Ids
from provisioning.common.prepared import Prepared
from provisioning.ec2.kinds import kinds
from provisioning.ec2.models import Ec2Id

DIGITS = 17
AT_ONCE = 100
"""Ids that one query looks for among UUIDs."""
_FORM = re.compile(r"([a-z-]+)-(?:[0-9a-f]{17}|[0-9a-f]{8})", re.ASCII)

_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.ASCII)
_OF_TIES = ("eipassoc", "eni-attach", "rtbassoc")
"""Kinds whose ids stand for what is tied to something, and which has an id of its own."""


def is_id(kind: str, text: str) -> bool:
    """Whether the text has the form of an id of this kind (``i``, ``vol``), the long or the old short one."""
    found = _FORM.fullmatch(text)
    return found is not None and found[1] == kind


def ids_of(kind: str, resources: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Return resource → EC2 id; those that had none get one.  One query, three more when there are new ones."""
    return ids_of_all({kind: resources})[kind]


def ids_of_all(resources: Mapping[str, Iterable[uuid.UUID]]) -> dict[str, dict[uuid.UUID, str]]:
    """Return kind → resource → EC2 id, as ``ids_of``, and with as many queries for all kinds together."""
    wanted = {kind: set(each) for kind, each in resources.items()}
    found = _known(wanted)
    digits = _own_digits
    while missing := {kind: each for kind in wanted if (each := wanted[kind] - found[kind].keys())}:
        rows = [
            Ec2Id(ec2_id=f"{kind}-{digits(resource)}", kind=kind, resource_id=resource)
            for kind, each in missing.items()
            for resource in each
        ]
        Ec2Id.objects.bulk_create(rows, ignore_conflicts=True)  # somebody else may be giving them theirs
        for kind, known in _known(missing).items():
            found[kind] |= known
        digits = _random_digits
    return found


def _own_digits(resource: uuid.UUID) -> str:
    """Return the first digits of a UUID; random ones for a number that is no UUID by itself."""
    return resource.hex[:DIGITS] if resource.int >> 64 else _random_digits(resource)


def _random_digits(resource: uuid.UUID) -> str:
    return f"0{secrets.token_hex(DIGITS // 2)}"


def given(kind: str, resources: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Return resource → EC2 id of those that have one; nothing gets one."""
    return _known({kind: set(resources)})[kind]


def forget(kind: str, resource: uuid.UUID) -> None:
    """Let a resource have no id of this kind."""
    Ec2Id.objects.filter(kind=kind, resource_id=resource).delete()


def id_of(kind: str, resource: uuid.UUID) -> str:
    return ids_of(kind, [resource])[resource]


def resources_of(kind: str, ec2_ids: Iterable[str]) -> dict[str, uuid.UUID]:
    """Return EC2 id → resource, of those that were given; whose they are is for the resource's own service to say."""
    wanted = set(ec2_ids)
    if len(wanted) == 1:
        found = dict(_RESOURCE(ec2_id=next(iter(wanted)), kind=kind))
    else:
        found = dict(Ec2Id.objects.filter(ec2_id__in=wanted, kind=kind).values_list("ec2_id", "resource_id"))
    return found | _told_by_guests(kind, wanted - found.keys())


def in_words(text: str) -> str:
    """Return a text in which UUIDs of what has an EC2 id are replaced by that; one query when it has some."""
    found = {uuid.UUID(each) for each in _UUID.findall(text)}
    if not found:
        return text
    rows = Ec2Id.objects.filter(resource_id__in=found).exclude(kind__in=_OF_TIES).order_by("kind")
    known = dict(rows.values_list("resource_id", "ec2_id"))
    return _UUID.sub(lambda each: known.get(uuid.UUID(each[0]), each[0]), text)


def _told_by_guests(kind: str, ec2_ids: set[str]) -> dict[str, uuid.UUID]:
    """Return what ids stand for that nobody was shown yet, but that guests make of UUIDs themselves; they are kept."""
    if kind not in kinds or not isinstance(kinds[kind].model._meta.pk, UUIDField):
        return {}
    model = kinds[kind].model
    found: dict[str, uuid.UUID] = {}
    digits = [ec2_id.rpartition("-")[2] for ec2_id in ec2_ids]
    ranges = [
        (uuid.UUID(each.ljust(32, "0")), uuid.UUID(each.ljust(32, "f"))) for each in digits if len(each) == DIGITS
    ]
    for begin in range(0, len(ranges), AT_ONCE):
        condition = Q(pk__in=[])
        for first, last in ranges[begin : begin + AT_ONCE]:
            condition |= Q(pk__gte=first, pk__lte=last)
        known = ids_of(kind, model._default_manager.filter(condition).values_list("pk", flat=True))
        found |= {ec2_id: resource for resource, ec2_id in known.items() if ec2_id in ec2_ids}
    return found


def _known(wanted: Mapping[str, set[uuid.UUID]]) -> dict[str, dict[uuid.UUID, str]]:
    found: dict[str, dict[uuid.UUID, str]] = {kind: {} for kind in wanted}
    every = set().union(*wanted.values())
    for kind, resource, ec2_id in _IDS(ids=every) if every else ():
        if resource in wanted.get(kind, ()):
            found[kind][resource] = ec2_id
    return found


_RESOURCE = Prepared(
    lambda ec2_id, kind: Ec2Id.objects.filter(ec2_id=ec2_id, kind=kind).values_list("ec2_id", "resource_id"),
    ec2_id=CharField(),
    kind=CharField(),
)
_IDS = Prepared(
    lambda ids: Ec2Id.objects.filter(Among("resource_id", ids)).values_list("kind", "resource_id", "ec2_id"), ids=Ids()
)
