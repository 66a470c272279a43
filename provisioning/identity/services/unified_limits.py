"""Registered limits, and limits of projects and domains.

They are stored for clients and external services; this cloud's own services use quotas instead.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db import transaction

from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ForbiddenError, InvalidInputError, NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.identity.models import LONG, Domain, Limit, Project, Region, RegisteredLimit, Service
from provisioning.identity.records.conflicts import conflict_as
from provisioning.identity.services.checks import check_name, check_text

LONGEST_TEXT = 255
_TAKEN = "A {what} of this resource already exists, or an object it refers to was deleted in the meantime."
_Resource = tuple[Any, str | None, str]
"""Service, region and name of a resource."""


@when_broken_off
def create_registered_limits(requested: Sequence[Mapping[str, Any]]) -> list[RegisteredLimit]:
    """Create registered limits: ``service_id``, ``resource_name``, ``default_limit``, optionally ``region_id``,
    ``description``.

    Raises InvalidInputError for an unknown service or region.  Raises ConflictError if the resource already has one.
    """
    services, regions = _services(requested), _regions(requested)
    made = [RegisteredLimit(**_columns(one, services, regions)) for one in requested]
    with conflict_as(_TAKEN.format(what="registered limit")):
        RegisteredLimit.objects.bulk_create(made)
    return made


@when_broken_off
def update_registered_limit(record: RegisteredLimit, changes: Mapping[str, Any]) -> RegisteredLimit:
    """Update a registered limit.  Raises the errors of ``create_registered_limits``, and ForbiddenError if a limit
    refers to it.
    """
    columns = _columns(changes, _services([changes]), _regions([changes]))
    with conflict_as(_TAKEN.format(what="registered limit")):
        _lock_unreferenced(record)
        for name, value in columns.items():
            setattr(record, name, value)
        if columns:
            record.save(update_fields=list(columns))
    return record


@when_broken_off
@transaction.atomic
def delete_registered_limit(record: RegisteredLimit) -> None:
    """Delete a registered limit.  Raises ForbiddenError if a limit refers to it."""
    _lock_unreferenced(record)
    record.delete()


@when_broken_off
def create_limits(requested: Sequence[Mapping[str, Any]]) -> list[Limit]:
    """Create limits: as ``create_registered_limits``, with ``resource_limit`` and either ``project_id`` or
    ``domain_id``.

    A domain's id is also accepted as ``project_id``. Raises InvalidInputError for unknown objects.  Raises
    ForbiddenError for a resource without a registered limit.  Raises ConflictError if the project or domain already has
    a limit.
    """
    services, regions = _services(requested), _regions(requested)
    owners = _owners(requested)
    resources = [_resource(one, services, regions) for one in requested]
    with conflict_as(_TAKEN.format(what="limit")):
        registered = _locked(resources)
        missing = [name for service, region, name in resources if (service, region, name) not in registered]
        if missing:
            raise ForbiddenError(f"Unable to create a limit of {missing[0][:64]}: it has no registered limit.")
        made = [
            Limit(registered_limit=registered[resource], **owner, **_limit_columns(one))
            for one, resource, owner in zip(requested, resources, owners, strict=True)
        ]
        Limit.objects.bulk_create(made)
    return made


@when_broken_off
@transaction.atomic
def update_limit(record: Limit, changes: Mapping[str, Any]) -> Limit:
    """Update ``resource_limit`` and ``description``.  Raises NotFoundError if it was deleted in the meantime."""
    columns = _limit_columns(changes)
    if columns and not Limit.objects.filter(id=record.id).update(**columns):
        raise NotFoundError(f"Could not find limit for {record.id.hex}.")
    for name, value in columns.items():
        setattr(record, name, value)
    return record


def delete_limit(record: Limit) -> None:
    record.delete()


def _lock_unreferenced(record: RegisteredLimit) -> None:
    """Lock a registered limit until the transaction ends, so that no limit can be created for it.

    Raises ForbiddenError if a limit refers to it, and NotFoundError if it was deleted in the meantime.
    """
    if not RegisteredLimit.objects.select_for_update().filter(id=record.id).exists():
        raise NotFoundError(f"Could not find registered limit for {record.id.hex}.")
    if record.limits.exists():
        raise ForbiddenError(
            f"Unable to update or delete registered limit {record.id.hex}: there are limits associated with it."
            " Delete those first."
        )


def _locked(resources: Collection[_Resource]) -> dict[_Resource, RegisteredLimit]:
    """Return the registered limits of these resources, locked until the transaction ends."""
    rows = RegisteredLimit.objects.select_for_update().filter(
        service__in={service for service, _, _ in resources}, resource_name__in={name for _, _, name in resources}
    )
    return {(row.service_id, row.region_id, row.resource_name): row for row in rows.order_by("id")}


def _services(requested: Collection[Mapping[str, Any]]) -> dict[str, Any]:
    """Return given id → service id.  Raises InvalidInputError for an unknown service."""
    specified = {one["service_id"]: read_id(one["service_id"]) for one in requested if "service_id" in one}
    there = set(Service.objects.filter(id__in=[key for key in specified.values() if key]).values_list("id", flat=True))
    return _existing("service_id", specified, there)


def _regions(requested: Collection[Mapping[str, Any]]) -> dict[str, Any]:
    specified = {text: text for one in requested if (text := one.get("region_id")) is not None}
    plain = [text for text in specified if "\0" not in text]
    return _existing("region_id", specified, set(Region.objects.filter(id__in=plain).values_list("id", flat=True)))


def _existing(field: str, identities: Mapping[str, Any], there: Collection[Any]) -> dict[str, Any]:
    for text, key in identities.items():
        if key not in there:
            shown = text[:64].replace("\0", "")
            raise InvalidInputError(f"Could not find {field.removesuffix('_id')}: {shown}.", field=field)
    return dict(identities)


def _owners(requested: Collection[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return ``project_id`` or ``domain_id`` for each limit.  Raises InvalidInputError unless it has exactly one of
    them.
    """
    texts = {text for one in requested for name in ("project_id", "domain_id") if (text := one.get(name)) is not None}
    keys = {text: read_id(text) for text in texts}
    projects = set(Project.objects.filter(id__in={key for key in keys.values() if key}).values_list("id", flat=True))
    plain = [text for text in texts if "\0" not in text]
    domains = set(Domain.objects.filter(id__in=plain).values_list("id", flat=True))
    result: list[dict[str, Any]] = []
    for one in requested:
        project, domain = one.get("project_id"), one.get("domain_id")
        text = project if domain is None else domain
        if text is None or (project is None) == (domain is None):
            raise InvalidInputError("A limit must have either a project or a domain.", field="project_id")
        if domain is None and keys[text] in projects:
            result.append({"project_id": keys[text]})
        elif text in domains:
            result.append({"domain_id": text})
        else:
            what = "project" if domain is None else "domain"
            shown = text[:64].replace("\0", "")
            raise InvalidInputError(f"Could not find {what}: {shown}.", field=f"{what}_id")
    return result


def _resource(one: Mapping[str, Any], services: Mapping[str, Any], regions: Mapping[str, Any]) -> _Resource:
    region = one.get("region_id")
    return services[one["service_id"]], regions[region] if region is not None else None, one["resource_name"]


def _columns(one: Mapping[str, Any], services: Mapping[str, Any], regions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a registered limit."""
    result: dict[str, Any] = {}
    if "service_id" in one:
        result["service_id"] = services[one["service_id"]]
    if "region_id" in one:
        result["region_id"] = regions[one["region_id"]] if one["region_id"] is not None else None
    if "resource_name" in one:
        result["resource_name"] = check_name(one["resource_name"], LONG, "resource_name")
    if "default_limit" in one:
        result["default_limit"] = one["default_limit"]
    return result | _description(one)


def _limit_columns(one: Mapping[str, Any]) -> dict[str, Any]:
    columns = {"resource_limit": one["resource_limit"]} if "resource_limit" in one else {}
    return columns | _description(one)


def _description(one: Mapping[str, Any]) -> dict[str, Any]:
    if "description" not in one:
        return {}
    text = one["description"]
    return {"description": None if text is None else check_text(text, longest=LONGEST_TEXT)}
