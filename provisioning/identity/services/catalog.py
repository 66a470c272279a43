"""Regions, services and endpoints of the catalog."""

import uuid
from typing import Any

from django.conf import settings
from django.db import transaction

from provisioning.common.errors import ForbiddenError, InvalidInputError, NotFoundError
from provisioning.common.values.text import has_control_characters
from provisioning.identity.models import LONG, Endpoint, Region, Service
from provisioning.identity.records.catalog import INTERFACES, OWN, check_url
from provisioning.identity.records.conflicts import conflict_as

Extra = dict[str, Any]


@transaction.atomic
def ensure_catalog() -> None:
    """Create this cloud's missing region, services and endpoints.

    The endpoints are in the region of the setting. If the setting has changed, the endpoints are moved to the new
    region, and the previous region is deleted if it is empty and has no description.
    """
    region, _ = Region.objects.get_or_create(id=settings.REGION)
    known = set(Service.objects.filter(id__in=[own.id for own in OWN]).values_list("id", flat=True))
    if len(known) < len(OWN):
        missing = [
            Service(id=own.id, type=own.type, name=own.name, description=own.description)
            for own in OWN
            if own.id not in known
        ]
        Service.objects.bulk_create(missing, ignore_conflicts=True)
    expected = {own.endpoint_id(interface): (own, interface) for own in OWN for interface in INTERFACES}
    present = dict(Endpoint.objects.filter(id__in=expected).values_list("id", "region_id"))
    if len(present) < len(expected):
        Endpoint.objects.bulk_create(
            [
                Endpoint(id=key, service_id=own.id, region=region, interface=interface, url=own.url)
                for key, (own, interface) in expected.items()
                if key not in present
            ],
            ignore_conflicts=True,
        )
    elsewhere = set(present.values()) - {region.id}
    if elsewhere:
        Endpoint.objects.filter(id__in=present).update(region=region)
        empty = Region.objects.filter(id__in=elsewhere - {None}, description="", endpoint=None, children=None)
        empty.delete()


def create_region(
    region_id: str | None = None, *, description: str = "", parent: Region | None = None, extra: Extra | None = None
) -> Region:
    """Create a region; without an id, a random one is used.  Raises ConflictError if the id exists."""
    key = uuid.uuid4().hex if region_id is None else region_id
    if not key or len(key) > LONG or "/" in key or not key.isprintable() or key in {".", ".."}:
        raise InvalidInputError(
            f"The id of a region must have from 1 to {LONG} printable characters, none of them a slash.", field="id"
        )
    region = Region(id=key, description=description, parent=parent, extra=extra or {})
    with conflict_as(f"A region with the id {key[:64]} already exists. Choose another id.", field="id"):
        region.save(force_insert=True)
    return region


def ensure_region(region_id: str) -> Region:
    """Return the region with this id, created if missing.  Raises the errors of ``create_region``."""
    known = Region.objects.filter(id=region_id).first()
    return known if known is not None else create_region(region_id)


def update_region(region: Region, **changes: Any) -> Region:
    """Update ``description``, ``parent`` or ``extra`` (merged).  Raises InvalidInputError for a cycle of regions."""
    if changes.get("parent") is not None:
        above: Region | None = changes["parent"]
        seen: set[str] = set()
        while above is not None and above.id not in seen:
            if above.id == region.id:
                raise InvalidInputError(
                    f"The specified parent region {changes['parent'].id} would create a circular region hierarchy.",
                    field="parent_region_id",
                )
            seen.add(above.id)
            above = above.parent
    with conflict_as("The parent region was deleted in the meantime.", NotFoundError):
        _change(region, changes, {"description", "parent", "extra"})
    return region


def delete_region(region: Region) -> None:
    """Delete a region.  Raises ForbiddenError while it has endpoints or child regions."""
    with conflict_as(
        f"Unable to delete region {region.id} because it has endpoints or child regions. Move or delete them first.",
        ForbiddenError,
    ):
        region.delete()


def create_service(
    type_: str, *, name: str = "", description: str = "", enabled: bool = True, extra: Extra | None = None
) -> Service:
    """Create a service; type and name need not be unique."""
    _check_words(type=type_, name=name)
    return Service.objects.create(type=type_, name=name, description=description, enabled=enabled, extra=extra or {})


def update_service(service: Service, **changes: Any) -> Service:
    """Update ``type``, ``name``, ``description``, ``enabled`` or ``extra`` (merged) of a service."""
    _check_words(**{name: changes[name] for name in ("type", "name") if name in changes})
    _change(service, changes, {"type", "name", "description", "enabled", "extra"})
    return service


def delete_service(service: Service) -> None:
    """Delete a service with its endpoints."""
    service.delete()


def create_endpoint(
    service: Service,
    interface: str,
    url: str,
    *,
    region: Region | str | None = None,
    enabled: bool = True,
    extra: Extra | None = None,
) -> Endpoint:
    """Create an endpoint; a region given by its id is created if missing.

    Raises InvalidInputError for an invalid interface or URL (``catalog.check_url``).
    """
    _check_endpoint({"interface": interface, "url": url})
    with conflict_as("The service or the region was deleted in the meantime.", NotFoundError):
        where = ensure_region(region) if isinstance(region, str) else region
        return Endpoint.objects.create(
            service=service, interface=interface, url=url, region=where, enabled=enabled, extra=extra or {}
        )


def update_endpoint(endpoint: Endpoint, **changes: Any) -> Endpoint:
    """Update ``service``, ``interface``, ``url``, ``region``, ``enabled`` or ``extra`` (merged) of an endpoint.

    Raises the errors of ``create_endpoint``.
    """
    _check_endpoint(changes)
    with conflict_as("The service or the region was deleted in the meantime.", NotFoundError):
        if isinstance(changes.get("region"), str):
            changes["region"] = ensure_region(changes["region"])
        _change(endpoint, changes, {"service", "interface", "url", "region", "enabled", "extra"})
    return endpoint


def delete_endpoint(endpoint: Endpoint) -> None:
    endpoint.delete()


def _check_endpoint(values: dict[str, Any]) -> None:
    if "interface" in values and values["interface"] not in INTERFACES:
        raise InvalidInputError(f"The interface must be one of {', '.join(INTERFACES)}.", field="interface")
    if "url" in values:
        check_url(values["url"])


def _check_words(**values: str) -> None:
    for name, value in values.items():
        least = 1 if name == "type" else 0
        if not least <= len(value) <= LONG or has_control_characters(value):
            msg = f"{name} must have from {least} to {LONG} characters, none of them a control character."
            raise InvalidInputError(msg, field=name)


def _change(record: Region | Service | Endpoint, changes: dict[str, Any], known: set[str]) -> None:
    unknown = changes.keys() - known
    if unknown:
        raise TypeError(f"{type(record).__name__} has no updatable field {', '.join(sorted(unknown))}.")
    if "extra" in changes:
        changes["extra"] = {**record.extra, **(changes["extra"] or {})}
    for column, value in changes.items():
        setattr(record, column, value)
    if changes:
        record.save(update_fields=list(changes))
