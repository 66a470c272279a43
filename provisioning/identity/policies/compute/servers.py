"""Servers: list, show, launch, change, delete."""

from provisioning.identity.policies.base import ADMIN, MEMBER, READER, rule

RULES = (
    rule("compute:servers:list", READER, "List the project's servers.", "GET /servers", "GET /servers/detail"),
    rule(
        "compute:servers:list:all_projects",
        ADMIN,
        "See and use the servers of every project.",
        "GET /servers?all_tenants=1",
        "GET /servers/detail?all_tenants=1",
    ),
    rule(
        "compute:servers:show",
        READER,
        "Show a server; every action on it asks this first.",
        "GET /servers/{server_id}",
        "POST /servers/{server_id}/action",
    ),
    rule(
        "compute:servers:show:host",
        ADMIN,
        "See on which host a server is, and what the host said of its faults.",
        "GET /servers/detail",
        "GET /servers/{server_id}",
    ),
    rule("compute:servers:create", MEMBER, "Launch servers.", "POST /servers"),
    rule("compute:servers:update", MEMBER, "Rename or describe a server.", "PUT /servers/{server_id}"),
    rule("compute:servers:delete", MEMBER, "Delete a server.", "DELETE /servers/{server_id}"),
)
