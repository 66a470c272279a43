"""Who may do what: every operation of every face has one rule here, and every face asks here.

A rule is a text of alternatives joined by ``or``: ``role:NAME`` (the caller has the role, implied ones included, on
the token's project), ``user_id:%(user_id)s`` (the object belongs to the caller), ``project_id:%(project_id)s`` (the
object is the token's project or belongs to it), ``@`` (whoever is signed in) and ``!`` (nobody).  This is the part of
oslo.policy's language that the rules need. Which objects exist for a caller is not decided here: selectors show a
project its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError
from provisioning.common.ids import read_id

READER = "role:reader"
MEMBER = "role:member"
ADMIN = "role:admin"
ANYBODY = "@"
ADMIN_OR_USER = "role:admin or user_id:%(user_id)s"

Operation = tuple[str, str]
Target = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Rule:
    """One operation's rule: the check, a sentence for operators, and the requests it guards (method, path)."""

    name: str
    check: str
    description: str
    operations: tuple[Operation, ...] = ()


def _rule(name: str, check: str, description: str, *operations: str) -> Rule:
    """Make a rule; an operation is written ``GET /servers``."""
    pairs = tuple((method, path) for method, _, path in (text.partition(" ") for text in operations))
    return Rule(name, check, description, pairs)


_COMPUTE = (
    _rule("compute:servers:list", READER, "List the project's servers.", "GET /servers", "GET /servers/detail"),
    _rule(
        "compute:servers:list:all_projects", ADMIN, "List the servers of every project.", "GET /servers?all_tenants=1"
    ),
    _rule("compute:servers:show", READER, "Show a server.", "GET /servers/{id}"),
    _rule("compute:servers:show:host", ADMIN, "See on which host a server is.", "GET /servers/{id}"),
    _rule("compute:servers:create", MEMBER, "Launch servers.", "POST /servers"),
    _rule("compute:servers:create:forced_host", ADMIN, "Choose the host of a launch.", "POST /servers"),
    _rule("compute:servers:update", MEMBER, "Rename or describe a server.", "PUT /servers/{id}"),
    _rule("compute:servers:delete", MEMBER, "Delete a server.", "DELETE /servers/{id}"),
    _rule("compute:servers:start", MEMBER, "Start a server.", "POST /servers/{id}/action (os-start)"),
    _rule("compute:servers:stop", MEMBER, "Stop a server.", "POST /servers/{id}/action (os-stop)"),
    _rule("compute:servers:reboot", MEMBER, "Reboot a server.", "POST /servers/{id}/action (reboot)"),
    _rule("compute:servers:reset_state", ADMIN, "Set a server's state.", "POST /servers/{id}/action (os-resetState)"),
    _rule(
        "compute:servers:console_output",
        MEMBER,
        "Read a server's console log.",
        "POST /servers/{id}/action (os-getConsoleOutput)",
    ),
    _rule("compute:server_metadata:list", READER, "List a server's metadata.", "GET /servers/{id}/metadata"),
    _rule("compute:server_metadata:show", READER, "Show one metadata item.", "GET /servers/{id}/metadata/{key}"),
    _rule("compute:server_metadata:create", MEMBER, "Add metadata.", "POST /servers/{id}/metadata"),
    _rule(
        "compute:server_metadata:update",
        MEMBER,
        "Change metadata.",
        "PUT /servers/{id}/metadata",
        "PUT /servers/{id}/metadata/{key}",
    ),
    _rule("compute:server_metadata:delete", MEMBER, "Remove metadata.", "DELETE /servers/{id}/metadata/{key}"),
    _rule("compute:server_tags:list", READER, "List a server's tags.", "GET /servers/{id}/tags"),
    _rule("compute:server_interfaces:list", READER, "List a server's ports.", "GET /servers/{id}/os-interface"),
    _rule("compute:server_ips:list", READER, "List a server's addresses.", "GET /servers/{id}/ips"),
    _rule(
        "compute:server_security_groups:list",
        READER,
        "List a server's security groups.",
        "GET /servers/{id}/os-security-groups",
    ),
    _rule("compute:server_volumes:list", READER, "List a server's volumes.", "GET /servers/{id}/os-volume_attachments"),
    _rule(
        "compute:instance_actions:list",
        READER,
        "List what was done with a server.",
        "GET /servers/{id}/os-instance-actions",
    ),
    _rule(
        "compute:instance_actions:show",
        READER,
        "Show one action.",
        "GET /servers/{id}/os-instance-actions/{request_id}",
    ),
    _rule(
        "compute:instance_actions:events",
        READER,
        "See the steps of an action.",
        "GET /servers/{id}/os-instance-actions/{request_id}",
    ),
    _rule(
        "compute:instance_actions:events:details",
        ADMIN,
        "See hosts and tracebacks of the steps.",
        "GET /servers/{id}/os-instance-actions/{request_id}",
    ),
    _rule("compute:flavors:list", READER, "List flavors.", "GET /flavors", "GET /flavors/detail"),
    _rule("compute:flavors:list:all", ADMIN, "List the flavors of every project.", "GET /flavors?is_public=None"),
    _rule("compute:flavors:show", READER, "Show a flavor.", "GET /flavors/{id}"),
    _rule("compute:flavors:create", ADMIN, "Make a flavor.", "POST /flavors"),
    _rule("compute:flavors:update", ADMIN, "Describe a flavor.", "PUT /flavors/{id}"),
    _rule("compute:flavors:delete", ADMIN, "Delete a flavor.", "DELETE /flavors/{id}"),
    _rule(
        "compute:flavor_extra_specs:list",
        READER,
        "List a flavor's extra specs.",
        "GET /flavors/{id}/os-extra_specs",
        "GET /flavors/{id}/os-extra_specs/{key}",
    ),
    _rule("compute:flavor_access:list", ADMIN, "List who sees a flavor.", "GET /flavors/{id}/os-flavor-access"),
    _rule("compute:keypairs:list", READER, "List one's key pairs.", "GET /os-keypairs"),
    _rule("compute:keypairs:show", READER, "Show one's key pair.", "GET /os-keypairs/{name}"),
    _rule("compute:keypairs:create", MEMBER, "Make or import a key pair.", "POST /os-keypairs"),
    _rule("compute:keypairs:delete", MEMBER, "Delete one's key pair.", "DELETE /os-keypairs/{name}"),
    _rule("compute:keypairs:other_users", ADMIN, "Work with other users' key pairs.", "GET /os-keypairs?user_id={id}"),
    _rule("compute:limits:show", READER, "Show the project's limits and usage.", "GET /limits"),
    _rule("compute:limits:show:other_project", ADMIN, "Show another project's.", "GET /limits?tenant_id={id}"),
    _rule("compute:quotas:show", READER, "Show the project's quotas.", "GET /os-quota-sets/{id}"),
    _rule("compute:quotas:update", ADMIN, "Change a project's quotas.", "PUT /os-quota-sets/{id}"),
    _rule("compute:availability_zones:list", READER, "List availability zones.", "GET /os-availability-zone"),
    _rule(
        "compute:availability_zones:detail", ADMIN, "List zones with their hosts.", "GET /os-availability-zone/detail"
    ),
    _rule("compute:extensions:list", READER, "List the API's extensions.", "GET /extensions"),
    _rule("compute:hosts:list", ADMIN, "List hosts.", "GET /os-services", "GET /os-hypervisors"),
    _rule("compute:hosts:show", ADMIN, "Show a host.", "GET /os-hypervisors/{id}"),
    _rule("compute:hosts:update", ADMIN, "Enable or disable a host.", "PUT /os-services/{id}"),
)

_IMAGE = (
    _rule("image:images:list", READER, "List images.", "GET /v2/images"),
    _rule("image:images:list:all_projects", ADMIN, "List the images of every project.", "GET /v2/images"),
    _rule("image:images:show", READER, "Show an image.", "GET /v2/images/{id}"),
    _rule("image:images:create", MEMBER, "Make an image record.", "POST /v2/images"),
    _rule("image:images:update", MEMBER, "Change an image.", "PATCH /v2/images/{id}"),
    _rule("image:images:delete", MEMBER, "Delete an image.", "DELETE /v2/images/{id}"),
    _rule("image:images:publicize", ADMIN, "Make an image public.", "POST /v2/images", "PATCH /v2/images/{id}"),
    _rule("image:images:upload", MEMBER, "Upload an image's data.", "PUT /v2/images/{id}/file"),
    _rule("image:images:download", READER, "Download an image's data.", "GET /v2/images/{id}/file"),
    _rule("image:members:list", READER, "List with whom an image is shared.", "GET /v2/images/{id}/members"),
    _rule("image:schemas:show", READER, "Read the schemas.", "GET /v2/schemas/{name}"),
    _rule("image:info:show", READER, "Read what the service offers.", "GET /v2/info/import", "GET /v2/info/stores"),
)

_NETWORK = (
    _rule("network:networks:list", READER, "List networks.", "GET /v2.0/networks"),
    _rule("network:networks:show", READER, "Show a network.", "GET /v2.0/networks/{id}"),
    _rule("network:networks:show:provider", ADMIN, "See how a network is made.", "GET /v2.0/networks/{id}"),
    _rule("network:subnets:list", READER, "List subnets.", "GET /v2.0/subnets"),
    _rule("network:subnets:show", READER, "Show a subnet.", "GET /v2.0/subnets/{id}"),
    _rule("network:ports:list", READER, "List ports.", "GET /v2.0/ports"),
    _rule("network:ports:show", READER, "Show a port.", "GET /v2.0/ports/{id}"),
    _rule("network:ports:show:binding", ADMIN, "See on which host a port is.", "GET /v2.0/ports/{id}"),
    _rule("network:security_groups:list", READER, "List security groups.", "GET /v2.0/security-groups"),
    _rule("network:security_groups:show", READER, "Show a security group.", "GET /v2.0/security-groups/{id}"),
    _rule("network:security_group_rules:list", READER, "List rules.", "GET /v2.0/security-group-rules"),
    _rule("network:security_group_rules:show", READER, "Show a rule.", "GET /v2.0/security-group-rules/{id}"),
    _rule("network:list:all_projects", ADMIN, "List the objects of every project.", "GET /v2.0/networks"),
    _rule("network:extensions:list", READER, "List the API's extensions.", "GET /v2.0/extensions"),
    _rule("network:quotas:show", READER, "Show the project's quotas.", "GET /v2.0/quotas/{id}"),
    _rule("network:availability_zones:list", READER, "List zones.", "GET /v2.0/availability_zones"),
)

_IDENTITY = (
    _rule(
        "identity:tokens:validate", ADMIN_OR_USER, "Look into a token.", "GET /v3/auth/tokens", "HEAD /v3/auth/tokens"
    ),
    _rule("identity:tokens:revoke", ADMIN_OR_USER, "Give a token back.", "DELETE /v3/auth/tokens"),
    _rule("identity:auth:projects", ANYBODY, "List the projects one may enter.", "GET /v3/auth/projects"),
    _rule("identity:auth:domains", ANYBODY, "List the domains one may enter.", "GET /v3/auth/domains"),
    _rule("identity:auth:catalog", ANYBODY, "Read the catalog of the token's project.", "GET /v3/auth/catalog"),
    _rule("identity:users:list", ADMIN, "List users.", "GET /v3/users"),
    _rule("identity:users:find", ANYBODY, "Find oneself by name.", "GET /v3/users?name={name}"),
    _rule("identity:users:show", ADMIN_OR_USER, "Show a user.", "GET /v3/users/{id}"),
    _rule("identity:users:projects", ADMIN_OR_USER, "List a user's projects.", "GET /v3/users/{id}/projects"),
    _rule("identity:users:password", "user_id:%(user_id)s", "Change one's password.", "POST /v3/users/{id}/password"),
    _rule("identity:projects:list", ADMIN, "List projects.", "GET /v3/projects"),
    _rule(
        "identity:projects:show",
        "role:admin or project_id:%(project_id)s",
        "Show a project.",
        "GET /v3/projects/{id}",
    ),
    _rule("identity:projects:find", ANYBODY, "Find one's own projects by name.", "GET /v3/projects?name={name}"),
    _rule("identity:domains:list", ADMIN, "List domains.", "GET /v3/domains"),
    _rule("identity:domains:show", "role:admin or domain_id:%(domain_id)s", "Show a domain.", "GET /v3/domains/{id}"),
    _rule("identity:domains:find", ANYBODY, "Find one's own domain by name.", "GET /v3/domains?name={name}"),
    _rule("identity:roles:list", ADMIN, "List roles.", "GET /v3/roles"),
    _rule("identity:roles:show", ADMIN, "Show a role.", "GET /v3/roles/{id}"),
    _rule("identity:role_assignments:list", ADMIN, "List who has which role.", "GET /v3/role_assignments"),
    _rule("identity:services:list", ADMIN, "List the cloud's services.", "GET /v3/services", "GET /v3/endpoints"),
    _rule("identity:regions:list", ANYBODY, "List regions.", "GET /v3/regions"),
)

_LIVE = (
    _rule(
        "live:events:follow", READER, "Follow what happens in the project.", "GET /ws/v1/events", "GET /ws/dashboard"
    ),
    _rule("ops:admin", ADMIN, "Use the operators' pages.", "GET /admin/"),
)

RULES: dict[str, Rule] = {rule.name: rule for rule in (*_COMPUTE, *_IMAGE, *_NETWORK, *_IDENTITY, *_LIVE)}


def allows(context: RequestContext, rule: str, target: Target | None = None) -> bool:
    """Whether the caller may; ``target`` has the object's ids that the check names.  KeyError: no such rule."""
    return any(_holds(check.strip(), context, target or {}) for check in RULES[rule].check.split(" or "))


def enforce(context: RequestContext, rule: str, target: Target | None = None) -> None:
    """Raise ForbiddenError, in Nova's words, unless ``allows``."""
    if not allows(context, rule, target):
        raise ForbiddenError(f"Policy doesn't allow {rule} to be performed.")


def _holds(check: str, context: RequestContext, target: Target) -> bool:
    kind, _, wanted = check.partition(":")
    if kind == "role":
        return wanted in context.roles
    if kind in {"user_id", "project_id"}:
        own: uuid.UUID | None = getattr(context, kind)
        return own is not None and own == read_id(target.get(kind))
    if kind == "domain_id":
        return context.user_domain_id == target.get("domain_id")
    return check == "@"
