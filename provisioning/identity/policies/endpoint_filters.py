"""Endpoint groups, and the endpoints in the catalogs of single projects."""

from provisioning.identity.policies.base import CLOUD_ADMIN, CLOUD_ADMIN_OR_SYSTEM_READER, Rule, identity_rule


def _sees(name: str, description: str) -> Rule:
    return identity_rule(f"identity:{name}", CLOUD_ADMIN_OR_SYSTEM_READER, description)


def _changes(name: str, description: str) -> Rule:
    return identity_rule(f"identity:{name}", CLOUD_ADMIN, description)


RULES = (
    _sees("list_endpoint_groups", "List endpoint groups."),
    _sees("get_endpoint_group", "Show an endpoint group."),
    _changes("create_endpoint_group", "Create an endpoint group."),
    _changes("update_endpoint_group", "Update an endpoint group."),
    _changes("delete_endpoint_group", "Delete an endpoint group."),
    _sees("list_endpoints_associated_with_endpoint_group", "List the endpoints in an endpoint group."),
    _sees("list_projects_associated_with_endpoint_group", "List the projects that an endpoint group was added to."),
    _sees("get_endpoint_group_in_project", "Check whether an endpoint group was added to a project."),
    _changes("add_endpoint_group_to_project", "Add an endpoint group to a project's catalog."),
    _changes("remove_endpoint_group_from_project", "Remove an endpoint group from a project's catalog."),
    _sees("list_endpoint_groups_for_project", "List the endpoint groups that were added to a project."),
    _sees(
        "list_endpoints_for_project",
        "List the endpoints that were added to a project, directly or by an endpoint group.",
    ),
    _sees("check_endpoint_in_project", "Check whether an endpoint was added to a project."),
    _changes("add_endpoint_to_project", "Add an endpoint to a project's catalog."),
    _changes("remove_endpoint_from_project", "Remove an endpoint from a project's catalog."),
    _sees("list_projects_for_endpoint", "List the projects that an endpoint was added to."),
)
