"""EC2 ids: ``i-`` and 17 hexadecimal characters.

A resource has the first 17 of its UUID, which its host tells the guest too (``compute_agent.metadata``); a number has
digits that it follows from.  So reading writes nothing.  A table keeps the ids that are others: those that were given
at random because another of the kind had the digits, or by earlier versions, and those that are the record of a tie.
"""

import re
import secrets
import uuid
from collections.abc import Iterable, Mapping

from django.db.models import CharField, Q, UUIDField

from provisioning.common.lookups import Among, Ids
from provisioning.common.prepared import Prepared
from provisioning.ec2.kinds import KINDS, by_prefix
from provisioning.ec2.models import Ec2Id

DIGITS = 17
AT_ONCE = 100
"""Ids that one query looks for among UUIDs."""
_FORM = re.compile(r"([a-z-]+)-(?:[0-9a-f]{17}|[0-9a-f]{8})", re.ASCII)

_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.ASCII)
_NUMBERS = 1 << 64
_SPREAD = 0x9E3779B97F4A7C15
"""An odd number (2^64 divided by the golden ratio): numbers of rows multiplied by it look like no row of numbers."""
_MOST_NUMBER = (1 << 63) - 1
_OF_TIES = ("eipassoc", "eni-attach", "rtbassoc")
"""Kinds whose ids stand for what is tied to something, and which has an id of its own."""


def is_id(kind: str, text: str) -> bool:
    """Whether the text has the form of an id of this kind (``i``, ``vol``), the long or the old short one."""
    found = _FORM.fullmatch(text)
    return found is not None and found[1] == kind


def ids_of(kind: str, resources: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Return resource → EC2 id, in one query."""
    return ids_of_all({kind: resources})[kind]


def ids_of_all(resources: Mapping[str, Iterable[uuid.UUID]]) -> dict[str, dict[uuid.UUID, str]]:
    """Return kind → resource → EC2 id, in one query for all kinds together."""
    wanted = {kind: set(each) for kind, each in resources.items()}
    found = _known(wanted)
    for kind, each in wanted.items():
        found[kind] |= {resource: f"{kind}-{_digits(resource)}" for resource in each - found[kind].keys()}
    return found


def keep(kind: str, resources: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Write down the ids of resources, and return them; digits that another of the kind has become random ones.

    For what is created with a UUID that somebody has chosen, and for ids that are the record of a tie.
    """
    wanted = set(resources)
    found = _known({kind: wanted})[kind]
    taken = _with_digits(kind, {_digits(resource) for resource in wanted - found.keys()}) - wanted
    used = {_digits(resource) for resource in taken}
    while missing := wanted - found.keys():
        rows = []
        for resource in missing:
            digits = _digits(resource) if _digits(resource) not in used else f"0{secrets.token_hex(DIGITS // 2)}"
            used.add(_digits(resource))
            rows.append(Ec2Id(ec2_id=f"{kind}-{digits}", kind=kind, resource_id=resource))
        Ec2Id.objects.bulk_create(rows, ignore_conflicts=True)  # somebody else may be writing down theirs
        found |= _known({kind: missing})[kind]
    return found


def _digits(resource: uuid.UUID) -> str:
    """Return the first digits of a UUID; of a number, digits that lead back to it."""
    if resource.int >> 64:
        return resource.hex[:DIGITS]
    return f"{resource.int * _SPREAD % _NUMBERS:0{DIGITS}x}"


def given(kind: str, resources: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Return resource → EC2 id, of those whose id is written down."""
    return _known({kind: set(resources)})[kind]


def forget(kind: str, resource: uuid.UUID) -> None:
    """Remove the id of this kind that is written down for a resource."""
    Ec2Id.objects.filter(kind=kind, resource_id=resource).delete()


def id_of(kind: str, resource: uuid.UUID) -> str:
    return ids_of(kind, [resource])[resource]


def resources_of(kind: str, ec2_ids: Iterable[str]) -> dict[str, uuid.UUID]:
    """Return EC2 id → resource, of those that are there; whose they are is for the resource's own service to say."""
    wanted = set(ec2_ids)
    if len(wanted) == 1:
        found = dict(_RESOURCE(ec2_id=next(iter(wanted)), kind=kind))
    else:
        found = dict(Ec2Id.objects.filter(ec2_id__in=wanted, kind=kind).values_list("ec2_id", "resource_id"))
    return found | _made_of_keys(kind, wanted - found.keys())


def in_words(text: str) -> str:
    """Return a text in which UUIDs of what has an EC2 id are replaced by that; it costs a query for each kind."""
    left = {uuid.UUID(each) for each in _UUID.findall(text)}
    known: dict[uuid.UUID, str] = {}
    for kind in (each for each in KINDS if each.prefix not in _OF_TIES):
        if left and isinstance(kind.model._meta.pk, UUIDField):
            mine = set(kind.model._default_manager.filter(pk__in=left).values_list("pk", flat=True))
            known |= ids_of(kind.prefix, mine) if mine else {}
            left -= mine
    return _UUID.sub(lambda each: known.get(uuid.UUID(each[0]), each[0]), text) if known else text


def _made_of_keys(kind: str, ec2_ids: set[str]) -> dict[str, uuid.UUID]:
    """Return what ids stand for that follow from the keys of resources."""
    long = {each.rpartition("-")[2] for each in ec2_ids if len(each.rpartition("-")[2]) == DIGITS}
    found = ids_of(kind, _with_digits(kind, long)) if long else {}
    return {ec2_id: resource for resource, ec2_id in found.items() if ec2_id in ec2_ids}


def _with_digits(kind: str, digits: set[str]) -> set[uuid.UUID]:
    """Return the resources of a kind whose keys have these digits."""
    known_kind = by_prefix().get(kind)
    if known_kind is None:
        return set()
    found, every = set[uuid.UUID](), sorted(digits)
    for model in (known_kind.model, *known_kind.others):
        rows = model._default_manager
        if not isinstance(model._meta.pk, UUIDField):
            numbers = [int(each, 16) * pow(_SPREAD, -1, _NUMBERS) % _NUMBERS for each in every]
            known = rows.filter(pk__in=[each for each in numbers if each <= _MOST_NUMBER])
            found |= {uuid.UUID(int=number) for number in known.values_list("pk", flat=True)}
            continue
        for begin in range(0, len(every), AT_ONCE):
            condition = Q(pk__in=[])
            for each in every[begin : begin + AT_ONCE]:
                condition |= Q(pk__gte=uuid.UUID(each.ljust(32, "0")), pk__lte=uuid.UUID(each.ljust(32, "f")))
            found |= set(rows.filter(condition).values_list("pk", flat=True))
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
