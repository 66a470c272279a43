"""Endpoint groups, and the endpoints in the catalogs of single projects (OS-EP-FILTER)."""

from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.identity.models import Endpoint, EndpointGroup, Project, ProjectEndpoint, ProjectEndpointGroup
from provisioning.identity.records.catalog import is_filtered_by
from provisioning.identity.selectors.catalog import endpoints


def endpoint_groups() -> list[EndpointGroup]:
    """Return the groups by name."""
    return list(EndpointGroup.objects.order_by("name", "id"))


def existing_endpoint_group(group_id: str) -> EndpointGroup:
    """Return an endpoint group.  Raises NotFoundError."""
    key = read_id(group_id)
    endpoint_group = EndpointGroup.objects.filter(id=key).first() if key else None
    if endpoint_group is None:
        shown = group_id[:64].replace("\0", "")
        raise NotFoundError(f"Could not find endpoint group: {shown}.")
    return endpoint_group


def endpoints_in(group: EndpointGroup) -> list[Endpoint]:
    """Return the endpoints that match the group's filters, including disabled ones."""
    return [each for each in endpoints() if _is_in(each, group)]


def endpoints_of_project(project: Project) -> list[Endpoint]:
    """Return the endpoints that were added to the project, directly or by a group, including disabled ones."""
    added = set(ProjectEndpoint.objects.filter(project=project).values_list("endpoint_id", flat=True))
    groups = groups_of_project(project)
    return [each for each in endpoints() if each.id in added or any(_is_in(each, group) for group in groups)]


def groups_of_project(project: Project) -> list[EndpointGroup]:
    """Return the groups that were added to the project, by name."""
    rows = EndpointGroup.objects.filter(id__in=ProjectEndpointGroup.objects.filter(project=project).values("group"))
    return list(rows.order_by("name", "id"))


def has_endpoint(project: Project, endpoint: Endpoint) -> bool:
    """Return whether the endpoint was added to the project directly."""
    return ProjectEndpoint.objects.filter(project=project, endpoint=endpoint).exists()


def has_group(project: Project, group: EndpointGroup) -> bool:
    return ProjectEndpointGroup.objects.filter(project=project, group=group).exists()


def projects_of_endpoint(endpoint: Endpoint) -> list[Project]:
    """Return the projects to which the endpoint was added directly, with their tags, by name."""
    rows = Project.objects.filter(id__in=ProjectEndpoint.objects.filter(endpoint=endpoint).values("project"))
    return list(rows.prefetch_related("tags").order_by("name", "id"))


def projects_of_group(group: EndpointGroup) -> list[Project]:
    """Return the projects to which the group was added, with their tags, by name."""
    rows = Project.objects.filter(id__in=ProjectEndpointGroup.objects.filter(group=group).values("project"))
    return list(rows.prefetch_related("tags").order_by("name", "id"))


def _is_in(endpoint: Endpoint, group: EndpointGroup) -> bool:
    return is_filtered_by(
        group.filters, endpoint.service_id, endpoint.region_id, endpoint.interface, enabled=endpoint.enabled
    )
