"""The catalog as tokens show it, and its records."""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

from django.conf import settings

from provisioning.common.errors import NotFoundError
from provisioning.common.ids import read_id
from provisioning.identity.catalog import INTERFACES, OWN, filled
from provisioning.identity.models import Endpoint, Region, Service

_PLACE = {own.id: place for place, own in enumerate(OWN)}


class _Row(NamedTuple):
    """An enabled endpoint."""

    service_id: uuid.UUID
    id: uuid.UUID
    interface: str
    region_id: str | None
    url: str


def catalog_for(project_id: uuid.UUID | None, *, public_url: str | None = None) -> list[dict[str, Any]]:
    """Return the catalog of a token for this project, this cloud's own services first; two queries.

    ``public_url`` is the cloud's address, by default that of the settings.  Without a project, addresses that need one
    are left out.  What is disabled is left out.  A cloud without any service in its records has its own services.
    """
    address = settings.PUBLIC_URL if public_url is None else public_url
    services = list(Service.objects.values_list("id", "type", "name", "enabled"))
    if not services:
        services = [(own.id, own.type, own.name, True) for own in OWN]
        rows = [
            _Row(own.id, own.endpoint_id(interface), interface, settings.REGION, own.url)
            for own in OWN
            for interface in INTERFACES
        ]
    else:
        enabled = Endpoint.objects.filter(enabled=True, service__enabled=True)
        rows = [_Row(*row) for row in enabled.values_list("service_id", "id", "interface", "region_id", "url")]
    endpoints: dict[uuid.UUID, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (INTERFACES.index(row.interface), row.region_id or "", row.id)):
        url = filled(row.url, address, project_id)
        if url is not None:
            endpoints.setdefault(row.service_id, []).append(_endpoint(row, url))
    services.sort(key=lambda service: (_PLACE.get(service[0], len(OWN)), service[1], service[2], service[0]))
    return [
        {"id": key.hex, "type": type_, "name": name, "endpoints": endpoints.get(key, [])}
        for key, type_, name, on in services
        if on
    ]


def _endpoint(row: _Row, url: str) -> dict[str, Any]:
    return {
        "id": row.id.hex,
        "interface": row.interface,
        "region": row.region_id,
        "region_id": row.region_id,
        "url": url,
    }


def regions(*, parent_id: str | None = None) -> list[Region]:
    """Return the regions by id, with ``parent_id`` those directly below it."""
    found = Region.objects.order_by("id")
    if parent_id is None:
        return list(found)
    return [] if "\0" in parent_id else list(found.filter(parent=parent_id))


def existing_region(region_id: str) -> Region:
    """Return a region, or raise NotFoundError."""
    found = None if "\0" in region_id else Region.objects.filter(id=region_id).first()
    if found is None:
        raise NotFoundError(f"Could not find region: {_shown(region_id)}.")
    return found


def catalog_services() -> list[Service]:
    """Return the services of the records, this cloud's own first."""
    return sorted(
        Service.objects.all(), key=lambda each: (_PLACE.get(each.id, len(OWN)), each.type, each.name, each.id)
    )


def existing_service(service_id: str) -> Service:
    """Return a service, or raise NotFoundError."""
    key = read_id(service_id)
    found = Service.objects.filter(id=key).first() if key else None
    if found is None:
        raise NotFoundError(f"Could not find service: {_shown(service_id)}.")
    return found


def endpoints() -> list[Endpoint]:
    """Return the endpoints of the records, disabled ones too, in the catalog's order, with their services."""
    return sorted(
        Endpoint.objects.select_related("service"),
        key=lambda each: (
            _PLACE.get(each.service_id, len(OWN)),
            each.service.type,
            INTERFACES.index(each.interface),
            each.id,
        ),
    )


def existing_endpoint(endpoint_id: str) -> Endpoint:
    """Return an endpoint, or raise NotFoundError."""
    key = read_id(endpoint_id)
    found = Endpoint.objects.filter(id=key).first() if key else None
    if found is None:
        raise NotFoundError(f"Could not find endpoint: {_shown(endpoint_id)}.")
    return found


def _shown(text: str) -> str:
    return text[:64].replace("\0", "")
