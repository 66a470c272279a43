"""Calls of the Identity API."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from portal.dashboard.copy_as.calls import IMPLIED, POSITIONAL, Kind, attribute, edited, part_of_path

NAME = attribute("name", option=POSITIONAL)
DOMAIN = attribute("domain_id", option="--domain")
DESCRIPTION = attribute("description")

DOMAINS = Kind(
    key="domain",
    service="identity",
    path="domains",
    envelope="domain",
    attributes=(DESCRIPTION, NAME),
    command="domain create",
    python="identity.create_domain",
    terraform="openstack_identity_project_v3",
    ansible="openstack.cloud.identity_domain",
    ansible_result="domain",
    extra={"terraform": {"is_domain": True}},
)
PROJECT = Kind(
    key="project",
    service="identity",
    path="projects",
    envelope="project",
    attributes=(
        attribute("domain_id", option="--domain", ansible="domain"),
        attribute("parent_id", option="--parent", ansible=None),
        DESCRIPTION,
        attribute("tags", option="--tag", ansible=None),
        NAME,
    ),
    command="project create",
    python="identity.create_project",
    terraform="openstack_identity_project_v3",
    ansible="openstack.cloud.project",
    ansible_result="project",
)
USER = Kind(
    key="user",
    service="identity",
    path="users",
    envelope="user",
    attributes=(
        attribute("domain_id", option="--domain", ansible="domain"),
        attribute("email", terraform="extra.email"),
        DESCRIPTION,
        attribute("default_project_id", option="--project", ansible="default_project"),
        attribute("password"),
        NAME,
    ),
    command="user create",
    python="identity.create_user",
    terraform="openstack_identity_user_v3",
    ansible="openstack.cloud.identity_user",
    ansible_result="user",
)
GROUP = Kind(
    key="group",
    service="identity",
    path="groups",
    envelope="group",
    attributes=(DOMAIN, DESCRIPTION, NAME),
    command="group create",
    python="identity.create_group",
    terraform="openstack_identity_group_v3",
    ansible="openstack.cloud.identity_group",
    ansible_result="group",
)
ROLE = Kind(
    key="role",
    service="identity",
    path="roles",
    envelope="role",
    attributes=(DOMAIN, attribute("description", terraform=None), NAME),
    command="role create",
    python="identity.create_role",
    terraform="openstack_identity_role_v3",
    ansible="openstack.cloud.identity_role",
    ansible_result="role",
)
GROUP_USER = Kind(
    key="membership",
    service="identity",
    path="groups/{group_id}/users/{user_id}",
    envelope="",
    attributes=(
        part_of_path("group_id", python=IMPLIED, ansible="group"),
        part_of_path("user_id", ansible="user"),
        attribute("group", body=IMPLIED, option=IMPLIED, python=POSITIONAL, terraform=IMPLIED, ansible=IMPLIED),
    ),
    command="group add user",
    python="identity.add_user_to_group",
    terraform="openstack_identity_user_membership_v3",
    ansible="openstack.cloud.group_assignment",
    method="PUT",
    no_body=True,
)


def _edit(kind: Kind, *without: str) -> Kind:
    key = kind.key
    return edited(
        kind,
        key,
        path=f"{key}s/{{{key}}}",
        command=f"{key} set",
        python=f"identity.update_{key}",
        method="PATCH",
        without=("domain_id", *without),
    )


DOMAIN_EDIT = _edit(DOMAINS)
PROJECT_EDIT = _edit(PROJECT, "parent_id")
PROJECT_TAGS_REMOVED = Kind(
    key="project",
    service="identity",
    path=IMPLIED,
    envelope="",
    attributes=(part_of_path("project"), attribute("removed", body=IMPLIED, option="--remove-tag", python=IMPLIED)),
    command="project set",
    python=IMPLIED,
)
"""The command adds tags; it does not add and remove tags at the same time."""
USER_EDIT = _edit(USER, "password")
USER_PASSWORD = replace(USER_EDIT, attributes=(part_of_path("user"), attribute("password")))
OWN_PASSWORD = Kind(
    key="user",
    service="identity",
    path="users/{user}/password",
    envelope="user",
    attributes=(
        part_of_path("user", option=IMPLIED),
        attribute("original_password", python=POSITIONAL),
        attribute("password", python=POSITIONAL),
    ),
    command="user password set",
    python="identity.update_password",
)
GROUP_EDIT = _edit(GROUP)
ROLE_EDIT = _edit(ROLE)


def assignment(actor: str, *, on_domain: bool = False, inherited: bool = False) -> Kind:
    """Return the kind of a role of an ``actor`` (``user`` or ``group``) on a project or a domain. ``inherited``: the
    projects of the domain inherit it instead.
    """
    place = "domain" if on_domain else "project"
    path = f"{place}s/{{{place}_id}}/{actor}s/{{{actor}_id}}/roles/{{role_id}}"
    if inherited:
        kind = assignment(actor, on_domain=on_domain)
        return replace(
            kind,
            path=f"OS-INHERIT/{path}/inherited_to_projects",
            command="role add --inherited",
            terraform=None,
            ansible=None,
            extra={"python": {"inherited": True}},
        )
    return Kind(
        key="role_assignment",
        service="identity",
        path=path,
        envelope="",
        attributes=(
            part_of_path(f"{place}_id", option=f"--{place}", ansible=place),
            part_of_path(f"{actor}_id", option=f"--{actor}", ansible=actor),
            part_of_path("role_id", ansible="role"),
        ),
        command="role add",
        python=f"identity.assign_{place}_role_to_{actor}",
        terraform="openstack_identity_role_assignment_v3",
        ansible="openstack.cloud.role_assignment",
        method="PUT",
        no_body=True,
    )


IMPLICATION = Kind(
    key="role",
    service="identity",
    path="roles/{prior_role}/implies/{implied_role}",
    envelope="",
    attributes=(part_of_path("prior_role"), part_of_path("implied_role", option="--implied-role")),
    command="implied role create",
    python=None,
    method="PUT",
    no_body=True,
)
IMPLICATION_REMOVED = replace(IMPLICATION, command="implied role delete", method="DELETE")


def _roles(names: Sequence[str]) -> list[dict[str, str]]:
    return [{"name": each} for each in names]


def _access_rules(rules: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(rules)


APPLICATION_CREDENTIAL = Kind(
    key="application_credential",
    service="identity",
    path="users/{user_id}/application_credentials",
    envelope="application_credential",
    attributes=(
        part_of_path("user_id", option=IMPLIED, terraform=IMPLIED, ansible=IMPLIED),
        DESCRIPTION,
        attribute("roles", option="--role", convert=dict.fromkeys(("body", "python", "ansible"), _roles)),
        attribute("expires_at", option="--expiration"),
        attribute("unrestricted", flags=("--unrestricted", ""), usual=False),
        attribute("access_rules", block=True, convert={"option": _access_rules}),
        attribute("name", option=POSITIONAL, python=POSITIONAL),
    ),
    command="application credential create",
    python="identity.create_application_credential",
    terraform="openstack_identity_application_credential_v3",
    ansible="openstack.cloud.application_credential",
)


def on_system(actor: str) -> Kind:
    """Return the kind of a role of an ``actor`` on the system."""
    return Kind(
        key="role_assignment",
        service="identity",
        path=f"system/{actor}s/{{{actor}_id}}/roles/{{role_id}}",
        envelope="",
        attributes=(
            part_of_path(f"{actor}_id", option=f"--{actor}", ansible=actor, python=actor),
            part_of_path("role_id", python="role", ansible="role"),
        ),
        command="role add --system all",
        python=f"identity.assign_system_role_to_{actor}",
        ansible="openstack.cloud.role_assignment",
        method="PUT",
        no_body=True,
        extra={"python": {"system": "all"}, "ansible": {"system": "all"}},
    )


def revoked(kind: Kind) -> Kind:
    """Return the kind that revokes a role which ``kind`` assigns."""
    return replace(
        kind,
        command=(kind.command or "").replace("role add", "role remove"),
        python=(kind.python or "").replace(".assign_", ".unassign_").replace("_to_", "_from_"),
        terraform=None,
        method="DELETE",
        extra={**kind.extra, "ansible": {**kind.extra.get("ansible", {}), "state": "absent"}},
    )


EC2_CREDENTIAL = Kind(
    key="ec2_credential",
    service="identity",
    path="users/{user_id}/credentials/OS-EC2",
    envelope="",
    attributes=(
        part_of_path("user_id", option="--user", terraform="user_id"),
        attribute("project_id", body="tenant_id", option="--project"),
    ),
    command="ec2 credentials create",
    python=None,
    terraform="openstack_identity_ec2_credential_v3",
    answer="credential",
)
