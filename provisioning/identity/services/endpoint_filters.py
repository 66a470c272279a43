"""Endpoint groups, and the endpoints in the catalogs of single projects (OS-EP-FILTER)."""

from collections.abc import Mapping
from typing import Any

from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.identity.models import (
    LONG,
    Endpoint,
    EndpointGroup,
    Project,
    ProjectEndpoint,
    ProjectEndpointGroup,
)
from provisioning.identity.records.catalog import INTERFACES
from provisioning.identity.records.conflicts import conflict_as
from provisioning.identity.services.checks import check_name, check_text, store

FILTERS = ("service_id", "region_id", "interface", "enabled")
"""The endpoint attributes that groups can filter by."""
_GONE = "The endpoints or the project were deleted in the meantime."


@when_broken_off
def create_endpoint_group(name: str, filters: Mapping[str, Any], *, description: str | None = None) -> EndpointGroup:
    """Create an endpoint group.  Raises InvalidInputError without filters."""
    if not filters:
        raise InvalidInputError("The filters of an endpoint group cannot be empty.", field="filters")
    return EndpointGroup.objects.create(**_checked({"name": name, "filters": filters, "description": description}))


@when_broken_off
def update_endpoint_group(group: EndpointGroup, changes: Mapping[str, Any]) -> None:
    """Update ``name``, ``description`` or ``filters``. New filters replace all filters; empty: all endpoints match.

    Raises InvalidInputError.  Raises NotFoundError if the group was deleted in the meantime.
    """
    store(group, _checked(changes))


def delete_endpoint_group(group: EndpointGroup) -> None:
    """Delete an endpoint group. Catalogs that were restricted only by this group contain all endpoints again."""
    group.delete()


@when_broken_off
def add_endpoint_to_project(endpoint: Endpoint, project: Project) -> None:
    """Add an endpoint to the project's catalog, which then contains only added endpoints.

    Raises ConflictError if it was already added.  Raises NotFoundError if the endpoint or project was deleted in the
    meantime.
    """
    with conflict_as(_GONE, NotFoundError):
        if not ProjectEndpoint.objects.get_or_create(project=project, endpoint=endpoint)[1]:
            raise ConflictError(f"Endpoint {endpoint.id.hex} is already in project {project.id.hex}.")


def remove_endpoint_from_project(endpoint: Endpoint, project: Project) -> None:
    """Remove an added endpoint from the project's catalog.  Raises NotFoundError."""
    if not ProjectEndpoint.objects.filter(project=project, endpoint=endpoint).delete()[0]:
        raise NotFoundError(f"Endpoint {endpoint.id.hex} not found in project {project.id.hex}.")


@when_broken_off
def add_group_to_project(group: EndpointGroup, project: Project) -> None:
    """Add the endpoints of this group to the project's catalog. Raises the errors of ``add_endpoint_to_project``."""
    with conflict_as(_GONE, NotFoundError):
        if not ProjectEndpointGroup.objects.get_or_create(project=project, group=group)[1]:
            raise ConflictError(f"Endpoint group {group.id.hex} is already in project {project.id.hex}.")


def remove_group_from_project(group: EndpointGroup, project: Project) -> None:
    """Remove an added endpoint group from the project's catalog.  Raises NotFoundError."""
    if not ProjectEndpointGroup.objects.filter(project=project, group=group).delete()[0]:
        raise NotFoundError("Endpoint Group Project Association not found.")


def _checked(values: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(values)
    if "name" in result:
        result["name"] = check_name(result["name"], LONG)
    if result.get("description") is not None:
        result["description"] = check_text(result["description"])
    for name, value in result.get("filters", {}).items():
        if name not in FILTERS:
            raise InvalidInputError(f"The filters must be among {', '.join(FILTERS)}.", field="filters")
        if isinstance(value, str):
            check_text(value, name, LONG)
        if name == "interface" and value not in INTERFACES:
            raise InvalidInputError(f"The interface must be one of {', '.join(INTERFACES)}.", field="interface")
    return result
