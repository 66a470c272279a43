"""Groups of endpoints, and which endpoints the catalogs of single projects show (OS-EP-FILTER)."""

from collections.abc import Mapping
from typing import Any

from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.common.retry import when_broken_off
from provisioning.identity.catalog import INTERFACES
from provisioning.identity.conflicts import told_as
from provisioning.identity.models import (
    LONG,
    Endpoint,
    EndpointGroup,
    Project,
    ProjectEndpoint,
    ProjectEndpointGroup,
)
from provisioning.identity.services.checks import check_name, check_text, store

FILTERS = ("service_id", "region_id", "interface", "enabled")
"""The attributes of endpoints by which groups are made."""
_GONE = "The endpoints or the project were removed at the same moment."


@when_broken_off
def create_endpoint_group(name: str, filters: Mapping[str, Any], *, description: str | None = None) -> EndpointGroup:
    """Make a group of the endpoints that are as the filters say, of which there is one at least: InvalidInputError."""
    if not filters:
        raise InvalidInputError("The filters of an endpoint group cannot be empty.", field="filters")
    return EndpointGroup.objects.create(**_checked({"name": name, "filters": filters, "description": description}))


@when_broken_off
def update_endpoint_group(group: EndpointGroup, changes: Mapping[str, Any]) -> None:
    """Change ``name``, ``description`` or ``filters``, which are replaced as a whole and may be none: every endpoint.

    InvalidInputError; NotFoundError when the group went meanwhile.
    """
    store(group, _checked(changes))


def delete_endpoint_group(group: EndpointGroup) -> None:
    """Delete a group; catalogs that showed its endpoints alone show them all."""
    group.delete()


@when_broken_off
def add_endpoint_to_project(endpoint: Endpoint, project: Project) -> None:
    """Let the project's catalog show this endpoint, and no others but those added likewise.

    ConflictError when it does already; NotFoundError when one of them went meanwhile.
    """
    with told_as(_GONE, NotFoundError):
        if not ProjectEndpoint.objects.get_or_create(project=project, endpoint=endpoint)[1]:
            raise ConflictError(f"Endpoint {endpoint.id.hex} is in project {project.id.hex} already.")


def remove_endpoint_from_project(endpoint: Endpoint, project: Project) -> None:
    """Take an endpoint away that was added; NotFoundError."""
    if not ProjectEndpoint.objects.filter(project=project, endpoint=endpoint).delete()[0]:
        raise NotFoundError(f"Endpoint {endpoint.id.hex} not found in project {project.id.hex}.")


@when_broken_off
def add_group_to_project(group: EndpointGroup, project: Project) -> None:
    """Let the project's catalog show the endpoints of this group; as ``add_endpoint_to_project``."""
    with told_as(_GONE, NotFoundError):
        if not ProjectEndpointGroup.objects.get_or_create(project=project, group=group)[1]:
            raise ConflictError(f"Endpoint group {group.id.hex} is in project {project.id.hex} already.")


def remove_group_from_project(group: EndpointGroup, project: Project) -> None:
    """Take a group away that was added; NotFoundError."""
    if not ProjectEndpointGroup.objects.filter(project=project, group=group).delete()[0]:
        raise NotFoundError("Endpoint Group Project Association not found.")


def _checked(values: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(values)
    if "name" in found:
        found["name"] = check_name(found["name"], LONG)
    if found.get("description") is not None:
        found["description"] = check_text(found["description"])
    for name, value in found.get("filters", {}).items():
        if name not in FILTERS:
            raise InvalidInputError(f"Endpoints are filtered by {', '.join(FILTERS)}.", field="filters")
        if isinstance(value, str):
            check_text(value, name, LONG)
        if name == "interface" and value not in INTERFACES:
            raise InvalidInputError(f"The interface must be one of {', '.join(INTERFACES)}.", field="interface")
    return found
