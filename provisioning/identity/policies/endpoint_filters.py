"""Groups of endpoints, and which endpoints the catalogs of single projects show."""

from provisioning.identity.policies.base import CLOUD_ADMIN, CLOUD_ADMIN_OR_SYSTEM_READER, Rule, identity_rule


def _sees(name: str, description: str) -> Rule:
    return identity_rule(f"identity:{name}", CLOUD_ADMIN_OR_SYSTEM_READER, description)


def _changes(name: str, description: str) -> Rule:
    return identity_rule(f"identity:{name}", CLOUD_ADMIN, description)


RULES = (
    _sees("list_endpoint_groups", "List groups of endpoints."),
    _sees("get_endpoint_group", "Show a group of endpoints."),
    _changes("create_endpoint_group", "Make a group of endpoints."),
    _changes("update_endpoint_group", "Change a group of endpoints."),
    _changes("delete_endpoint_group", "Delete a group of endpoints."),
    _sees("list_endpoints_associated_with_endpoint_group", "List the endpoints in a group."),
    _sees("list_projects_associated_with_endpoint_group", "List the projects that a group of endpoints was added to."),
    _sees("get_endpoint_group_in_project", "Ask whether a group of endpoints was added to a project."),
    _changes("add_endpoint_group_to_project", "Let a project's catalog show a group of endpoints."),
    _changes("remove_endpoint_group_from_project", "Take a group of endpoints from a project's catalog."),
    _sees("list_endpoint_groups_for_project", "List the groups of endpoints that were added to a project."),
    _sees("list_endpoints_for_project", "List the endpoints that were added to a project, singly or by a group."),
    _sees("check_endpoint_in_project", "Ask whether an endpoint was added to a project."),
    _changes("add_endpoint_to_project", "Let a project's catalog show an endpoint."),
    _changes("remove_endpoint_from_project", "Take an endpoint from a project's catalog."),
    _sees("list_projects_for_endpoint", "List the projects that an endpoint was added to."),
)
