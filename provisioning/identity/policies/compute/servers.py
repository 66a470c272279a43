"""Servers: list, show, launch, change, delete."""

from provisioning.identity.policies.base import ADMIN, MEMBER, READER, rule

RULES = (
    rule("os_compute_api:servers:index", READER, "List the project's servers briefly."),
    rule("os_compute_api:servers:detail", READER, "List the project's servers in full."),
    rule(
        "os_compute_api:servers:index:get_all_tenants",
        ADMIN,
        "List the servers of every project briefly.",
        "GET /servers?all_tenants=1",
    ),
    rule(
        "os_compute_api:servers:detail:get_all_tenants",
        ADMIN,
        "See and use the servers of every project.",
        "GET /servers/detail?all_tenants=1",
    ),
    rule(
        "os_compute_api:servers:allow_all_filters",
        ADMIN,
        "Narrow lists of servers by every column; what others may not filter by is ignored.",
        "GET /servers",
        "GET /servers/detail",
    ),
    rule("os_compute_api:servers:show", READER, "Show a server; every action on it asks this first."),
    rule(
        "os_compute_api:os-extended-server-attributes",
        ADMIN,
        "See on which host a server is, what the host said of its faults, and how hosts were weighed.",
        "GET /servers/detail",
        "GET /servers/{server_id}",
        "GET /servers/{server_id}/novella-scheduling",
    ),
    rule(
        "os_compute_api:servers:show:host_status",
        ADMIN,
        "See whether a server's host is up.",
        "GET /servers/detail",
        "GET /servers/{server_id}",
        "PUT /servers/{server_id}",
    ),
    rule("novella:servers:scheduling", READER, "See how a place for a server was found, or why there was none."),
    rule("os_compute_api:servers:create", MEMBER, "Launch servers."),
    rule("novella:would_fit", READER, "Ask how many servers of a size would find a place now."),
    rule(
        "os_compute_api:servers:create:forced_host",
        ADMIN,
        "Launch a server on a host, named as zone:host:node in availability_zone.",
        "POST /servers",
    ),
    rule(
        "compute:servers:create:requested_destination",
        ADMIN,
        "Launch a server on a host, named by host or hypervisor_hostname (2.74).",
        "POST /servers",
    ),
    rule(
        "os_compute_api:servers:create:trusted_certs",
        MEMBER,
        "Launch a server with trusted image certificates (2.63).",
        "POST /servers",
    ),
    rule(
        "os_compute_api:servers:create:zero_disk_flavor",
        ADMIN,
        "Launch a server from an image with a flavor whose disk has no size: its root disk is as large as the image.",
        "POST /servers",
    ),
    rule(
        "novella:would_fit:hosts",
        ADMIN,
        "Ask it for any amounts, and see on which hosts they would be.",
        "POST /novella-would-fit",
    ),
    rule("os_compute_api:servers:update", MEMBER, "Rename, describe or address a server."),
)
