"""EC2 ids: ``i-`` and 17 hexadecimal characters.

The id of a resource consists of the first 17 digits of its UUID, which hosts also give to the guest
(``compute_agent.metadata``). Integer keys are converted to 17 digits in a reversible way. Reading ids therefore writes
nothing. A table stores the exceptions: random ids, if another resource of the kind has the same first digits, ids that
earlier versions have created, and ids of associations.
"""

import re
import secrets
import uuid
from collections.abc import Iterable, Mapping

from django.db.models import CharField, Q, UUIDField

from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared
from provisioning.ec2.kinds import KINDS, by_prefix
from provisioning.ec2.models import Ec2Id

DIGITS = 17
AT_ONCE = 100
"""Number of ids in one query for UUIDs."""
_FORM = re.compile(r"([a-z-]+)-(?:[0-9a-f]{17}|[0-9a-f]{8})", re.ASCII)

_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.ASCII)
_NUMBERS = 1 << 64
_SPREAD = 0x9E3779B97F4A7C15
"""An odd number (2^64 divided by the golden ratio). Multiplying row numbers by it hides their sequence."""
_MOST_NUMBER = (1 << 63) - 1
_OF_TIES = ("eipassoc", "eni-attach", "rtbassoc")
"""Kinds of ids that identify an association. The associated resource has an id of another kind."""


def is_id(kind: str, text: str) -> bool:
    """Return whether a text has the form of an id of this kind (``i``, ``vol``), long or short."""
    match = _FORM.fullmatch(text)
    return match is not None and match[1] == kind


def ids_of(kind: str, resources: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Return resource → EC2 id, in one query."""
    return ids_of_all({kind: resources})[kind]


def ids_of_all(resources: Mapping[str, Iterable[uuid.UUID]]) -> dict[str, dict[uuid.UUID, str]]:
    """Return kind → resource → EC2 id, in one query for all kinds."""
    needed = {kind: set(each) for kind, each in resources.items()}
    result = _known(needed)
    for kind, each in needed.items():
        result[kind] |= {resource: f"{kind}-{_digits(resource)}" for resource in each - result[kind].keys()}
    return result


def keep(kind: str, resources: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Store the ids of resources, and return them. If another resource of the kind has the same digits, random digits
    are used.

    Called for resources whose UUID a client has chosen, and for ids of associations.
    """
    needed = set(resources)
    result = _known({kind: needed})[kind]
    taken = _with_digits(kind, {_digits(resource) for resource in needed - result.keys()}) - needed
    used = {_digits(resource) for resource in taken}
    while missing := needed - result.keys():
        rows = []
        for resource in missing:
            digits = _digits(resource) if _digits(resource) not in used else f"0{secrets.token_hex(DIGITS // 2)}"
            used.add(_digits(resource))
            rows.append(Ec2Id(ec2_id=f"{kind}-{digits}", kind=kind, resource_id=resource))
        Ec2Id.objects.bulk_create(rows, ignore_conflicts=True)  # another process may store ids at the same time
        result |= _known({kind: missing})[kind]
    return result


def resource_of(key: uuid.UUID | int) -> uuid.UUID:
    """Return the UUID of a primary key; an integer key n is ``UUID(int=n)``."""
    return uuid.UUID(int=key) if isinstance(key, int) else key


def _digits(resource: uuid.UUID) -> str:
    """Return the first digits of a UUID; for an integer key, digits from which it can be computed."""
    if resource.int >> 64:
        return resource.hex[:DIGITS]
    return f"{resource.int * _SPREAD % _NUMBERS:0{DIGITS}x}"


def given(kind: str, resources: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Return resource → EC2 id, for resources with a stored id."""
    return _known({kind: set(resources)})[kind]


def forget(kind: str, resource: uuid.UUID) -> None:
    """Delete the stored id that a resource has as this kind."""
    Ec2Id.objects.filter(kind=kind, resource_id=resource).delete()


def id_of(kind: str, resource: uuid.UUID) -> str:
    return ids_of(kind, [resource])[resource]


def resources_of(kind: str, ec2_ids: Iterable[str]) -> dict[str, uuid.UUID]:
    """Return EC2 id → resource, for existing resources. The caller must check access to the resources."""
    needed = set(ec2_ids)
    if len(needed) == 1:
        known = dict(_RESOURCE(ec2_id=next(iter(needed)), kind=kind))
    else:
        known = dict(Ec2Id.objects.filter(ec2_id__in=needed, kind=kind).values_list("ec2_id", "resource_id"))
    return known | _made_of_keys(kind, needed - known.keys())


def in_words(text: str) -> str:
    """Replace the UUIDs of resources in a text by their EC2 ids. Takes one query for each kind."""
    left = {uuid.UUID(each) for each in _UUID.findall(text)}
    known: dict[uuid.UUID, str] = {}
    for kind in (each for each in KINDS if each.prefix not in _OF_TIES):
        if left and isinstance(kind.model._meta.pk, UUIDField):
            mine = set(kind.model._default_manager.filter(pk__in=left).values_list("pk", flat=True))
            known |= ids_of(kind.prefix, mine) if mine else {}
            left -= mine
    return _UUID.sub(lambda each: known.get(uuid.UUID(each[0]), each[0]), text) if known else text


def _made_of_keys(kind: str, ec2_ids: set[str]) -> dict[str, uuid.UUID]:
    """Return EC2 id → resource, for ids that are derived from keys."""
    long = {each.rpartition("-")[2] for each in ec2_ids if len(each.rpartition("-")[2]) == DIGITS}
    ids = ids_of(kind, _with_digits(kind, long)) if long else {}
    return {ec2_id: resource for resource, ec2_id in ids.items() if ec2_id in ec2_ids}


def _with_digits(kind: str, digits: set[str]) -> set[uuid.UUID]:
    """Return the resources of a kind whose keys have these digits."""
    known_kind = by_prefix().get(kind)
    if known_kind is None:
        return set()
    result, every = set[uuid.UUID](), sorted(digits)
    for model in (known_kind.model, *known_kind.others):
        rows = model._default_manager
        if not isinstance(model._meta.pk, UUIDField):
            numbers = [int(each, 16) * pow(_SPREAD, -1, _NUMBERS) % _NUMBERS for each in every]
            known = rows.filter(pk__in=[each for each in numbers if each <= _MOST_NUMBER])
            result |= {uuid.UUID(int=number) for number in known.values_list("pk", flat=True)}
            continue
        for begin in range(0, len(every), AT_ONCE):
            condition = Q(pk__in=[])
            for each in every[begin : begin + AT_ONCE]:
                condition |= Q(pk__gte=uuid.UUID(each.ljust(32, "0")), pk__lte=uuid.UUID(each.ljust(32, "f")))
            result |= set(rows.filter(condition).values_list("pk", flat=True))
    return result


def _known(requested: Mapping[str, set[uuid.UUID]]) -> dict[str, dict[uuid.UUID, str]]:
    result: dict[str, dict[uuid.UUID, str]] = {kind: {} for kind in requested}
    every = set().union(*requested.values())
    for kind, resource, ec2_id in _IDS(ids=every) if every else ():
        if resource in requested.get(kind, ()):
            result[kind][resource] = ec2_id
    return result


_RESOURCE = Prepared(
    lambda ec2_id, kind: Ec2Id.objects.filter(ec2_id=ec2_id, kind=kind).values_list("ec2_id", "resource_id"),
    ec2_id=CharField(),
    kind=CharField(),
)
_IDS = Prepared(
    lambda ids: Ec2Id.objects.filter(Among("resource_id", ids)).values_list("kind", "resource_id", "ec2_id"), ids=Ids()
)
