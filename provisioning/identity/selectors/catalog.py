"""The catalog for tokens, and its records."""

import uuid
from typing import Any, NamedTuple, TypeVar

from django.conf import settings
from django.db.models import Exists, Model, UUIDField

from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.identity.models import Endpoint, Policy, ProjectEndpoint, ProjectEndpointGroup, Region, Service
from provisioning.identity.records.catalog import INTERFACES, OWN, filled, is_filtered_by

_Record = TypeVar("_Record", bound=Model)
_PLACE = {own.id: place for place, own in enumerate(OWN)}


class _Row(NamedTuple):
    """A service with one of its endpoints, or without endpoints."""

    service_id: uuid.UUID
    type: str
    name: str
    service_enabled: bool
    id: uuid.UUID | None
    interface: str | None
    region_id: str | None
    url: str | None
    enabled: bool | None
    filtered: bool = False
    """Whether the project's catalog is restricted to some endpoints; the same in all rows."""


_COLUMNS = ("id", "type", "name", "enabled", *(f"endpoints__{name}" for name in _Row._fields[4:-1]))
_ROWS = Prepared(lambda: Service.objects.values_list(*_COLUMNS))
_ROWS_AND_WHETHER_FILTERED = Prepared(
    lambda project: Service.objects.annotate(
        filtered=Exists(ProjectEndpoint.objects.filter(project=project))
        | Exists(ProjectEndpointGroup.objects.filter(project=project))
    ).values_list(*_COLUMNS, "filtered"),
    project=UUIDField(),
)


def catalog_for(project_id: uuid.UUID | None, *, public_url: str | None = None) -> list[dict[str, Any]]:
    """Return the catalog for a token of this project, with this cloud's own services first.

    If endpoints or endpoint groups were added to the project, its catalog contains only these, unless no endpoint is
    left. This takes one query, or three for such a project. ``public_url``: the cloud's address, by default the
    setting. Disabled endpoints are omitted and, without a project, endpoints that need a project. If no services are
    stored, the cloud's own services are returned.
    """
    address = settings.PUBLIC_URL if public_url is None else public_url
    rows, filtered = _rows(project_id)
    result: dict[uuid.UUID, dict[str, Any]] = {}
    for row in sorted(rows, key=_place):
        if not row.service_enabled:
            continue
        entry = {"id": row.service_id.hex, "type": row.type, "name": row.name, "endpoints": []}
        endpoints: list[dict[str, Any]] = result.setdefault(row.service_id, entry)["endpoints"]
        url = filled(row.url, address, project_id) if row.enabled and row.url is not None else None
        if url is not None:
            endpoints.append(_endpoint(row, url))
    return [entry for entry in result.values() if entry["endpoints"] or not filtered]


def _rows(project_id: uuid.UUID | None) -> tuple[list[_Row], bool]:
    """Return the services with the endpoints of the project's catalog, and whether it is restricted to
    some endpoints.
    """
    if project_id is None:
        return [_Row(*row) for row in _ROWS()] or _own_rows(), False
    rows = [_Row(*row) for row in _ROWS_AND_WHETHER_FILTERED(project=project_id)] or _own_rows()
    if not rows[0].filtered:
        return rows, False
    added = set(ProjectEndpoint.objects.filter(project=project_id).values_list("endpoint_id", flat=True))
    groups = list(ProjectEndpointGroup.objects.filter(project=project_id).values_list("group__filters", flat=True))
    shown = [row for row in rows if row.id in added or (row.id and any(_is_in(row, filters) for filters in groups))]
    return (shown, True) if shown else (rows, False)


def _is_in(row: _Row, filters: dict[str, Any]) -> bool:
    return is_filtered_by(filters, row.service_id, row.region_id, row.interface, enabled=bool(row.enabled))


def _own_rows() -> list[_Row]:
    """Return the rows that ``services.ensure_catalog`` would create."""
    return [
        _Row(
            service_id=own.id,
            type=own.type,
            name=own.name,
            service_enabled=True,
            id=own.endpoint_id(interface),
            interface=interface,
            region_id=settings.REGION,
            url=own.url,
            enabled=True,
        )
        for own in OWN
        for interface in INTERFACES
    ]


def _place(row: _Row) -> tuple[int, str, str, uuid.UUID, int, str, uuid.UUID]:
    return (
        _PLACE.get(row.service_id, len(OWN)),
        row.type,
        row.name,
        row.service_id,
        INTERFACES.index(row.interface) if row.interface in INTERFACES else len(INTERFACES),
        row.region_id or "",
        row.id or row.service_id,
    )


def _endpoint(row: _Row, url: str) -> dict[str, Any]:
    return {
        "id": row.id.hex if row.id else "",
        "interface": row.interface,
        "region": row.region_id,
        "region_id": row.region_id,
        "url": url,
    }


def regions(*, parent_id: str | None = None) -> list[Region]:
    """Return the regions by id; ``parent_id``: only the children of this region."""
    rows = Region.objects.order_by("id")
    if parent_id is None:
        return list(rows)
    return [] if "\0" in parent_id else list(rows.filter(parent=parent_id))


def existing_region(region_id: str) -> Region:
    """Return a region.  Raises NotFoundError."""
    region = None if "\0" in region_id else Region.objects.filter(id=region_id).first()
    if region is None:
        raise NotFoundError(f"Could not find region: {_shown(region_id)}.")
    return region


def policies() -> list[Policy]:
    return list(Policy.objects.order_by("id"))


def existing_policy(policy_id: str) -> Policy:
    """Return a policy of ``/v3/policies``.  Raises NotFoundError."""
    return _existing(Policy, "policy", policy_id)


def catalog_services() -> list[Service]:
    """Return the stored services, this cloud's own first."""
    return sorted(
        Service.objects.all(), key=lambda each: (_PLACE.get(each.id, len(OWN)), each.type, each.name, each.id)
    )


def existing_service(service_id: str) -> Service:
    """Return a service.  Raises NotFoundError."""
    return _existing(Service, "service", service_id)


def endpoints() -> list[Endpoint]:
    """Return the stored endpoints, including disabled ones, with their services, in the order of the catalog."""
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
    """Return an endpoint.  Raises NotFoundError."""
    return _existing(Endpoint, "endpoint", endpoint_id)


def _existing(model: type[_Record], kind: str, identity: str) -> _Record:
    key = read_id(identity)
    result = model._default_manager.filter(pk=key).first() if key else None
    if result is None:
        raise NotFoundError(f"Could not find {kind}: {_shown(identity)}.")
    return result


def _shown(text: str) -> str:
    return text[:64].replace("\0", "")
