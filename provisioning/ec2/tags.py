"""Tags of resources: at most 50 of each resource, with a key and a value."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import connection, transaction
from django.db.models import CharField, Count, Exists, OuterRef, Q, QuerySet

from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import InvalidInputError, OverQuotaError
from provisioning.ec2 import ids
from provisioning.ec2.models import Ec2Id, Ec2Tag

MOST = 50
LONGEST_KEY, LONGEST_VALUE = 127, 255
RESERVED = "aws:"

Target = tuple[str, uuid.UUID]
"""Kind and resource id."""


def tags_of(kind: str, resources: Iterable[uuid.UUID]) -> dict[uuid.UUID, dict[str, str]]:
    """Return resource → its tags; resources without tags are omitted."""
    result: dict[uuid.UUID, dict[str, str]] = defaultdict(dict)
    for resource, key, value in _TAGS(kind=kind, ids=set(resources)):
        result[resource][key] = value
    return dict(result)


_TAGS = Prepared(
    lambda kind, ids: (
        Ec2Tag.objects.filter(Among("resource_id", ids), kind=kind)
        .order_by("key")
        .values_list("resource_id", "key", "value")
    ),
    kind=CharField(),
    ids=Ids(),
)


def tags_in(project_id: uuid.UUID) -> QuerySet[Ec2Tag]:
    """Return every tag of a project."""
    return Ec2Tag.objects.filter(project_id=project_id)


def has_tag(kind: str, **filters: Any) -> Exists:
    """Return the condition that a row of a kind has such a tag (``key="Name", value__in=[…]``)."""
    return Exists(Ec2Tag.objects.filter(resource_id=OuterRef("pk"), kind=kind, **filters))


def check(tags: Mapping[str, str]) -> None:
    """Raise InvalidInputError for an invalid tag and OverQuotaError for more than 50."""
    for key, value in tags.items():
        if not 0 < len(key) <= LONGEST_KEY:
            raise InvalidInputError(f"Tag keys must have 1 to {LONGEST_KEY} characters", field="Tag.Key")
        if key.lower().startswith(RESERVED):
            raise InvalidInputError(f"Tag keys starting with '{RESERVED}' are reserved", field="Tag.Key")
        if len(value) > LONGEST_VALUE:
            raise InvalidInputError(f"Tag values must have at most {LONGEST_VALUE} characters", field="Tag.Value")
    if len(tags) > MOST:
        raise OverQuotaError("tags of a resource", limit=MOST, used=0, requested=len(tags))


@when_broken_off
@transaction.atomic
def write(project_id: uuid.UUID, targets: Sequence[Target], tags: Mapping[str, str]) -> None:
    """Add tags to all resources, replacing tags with the same keys, in one transaction.

    Raises InvalidInputError as ``check``, and OverQuotaError if a resource would have more than 50 tags.
    """
    check(tags)
    resources = {resource for _, resource in targets}
    for kind in sorted({kind for kind, _ in targets}):
        ids.keep(kind, [resource for other, resource in targets if other == kind])
    _lock(resources)
    rows = [
        Ec2Tag(project_id=project_id, kind=kind, resource_id=resource, key=key, value=value)
        for kind, resource in sorted(set(targets))
        for key, value in sorted(tags.items())
    ]
    Ec2Tag.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["resource_id", "kind", "key"], update_fields=["value"]
    )
    counted = Ec2Tag.objects.filter(resource_id__in=resources)
    for each in counted.values("kind", "resource_id").annotate(many=Count("pk")).filter(many__gt=MOST):
        raise OverQuotaError("tags of a resource", limit=MOST, used=each["many"] - len(tags), requested=len(tags))


def _lock(resources: Iterable[uuid.UUID]) -> None:
    """Lock the resources, so that concurrent requests together cannot exceed the limit."""
    if connection.features.has_select_for_update:
        rows = Ec2Id.objects.select_for_update(no_key=True).filter(resource_id__in=list(resources))
        list(rows.order_by("pk").values_list("pk"))


@when_broken_off
@transaction.atomic
def remove(targets: Sequence[Target], tags: Mapping[str, str | None] | None) -> None:
    """Delete tags of all targets. ``tags`` maps the keys to delete to a value, or to None for any value; None: all
    tags.
    """
    rows = Ec2Tag.objects.none()
    for kind, resource in set(targets):
        rows = rows | Ec2Tag.objects.filter(kind=kind, resource_id=resource)
    if tags is not None:
        conditions = Q(pk__in=[])
        for key, value in tags.items():
            conditions |= Q(key=key) if value is None else Q(key=key, value=value)
        rows = rows.filter(conditions)
    rows.delete()
