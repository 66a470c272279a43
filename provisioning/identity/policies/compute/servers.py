"""Servers: list, show, create, update."""

from provisioning.identity.policies.base import ADMIN, MEMBER, READER, rule

RULES = (
    rule("os_compute_api:servers:index", READER, "List the project's servers without details."),
    rule("os_compute_api:servers:detail", READER, "List the project's servers with details."),
    rule(
        "os_compute_api:servers:index:get_all_tenants",
        ADMIN,
        "List the servers of all projects without details.",
        "GET /servers?all_tenants=1",
    ),
    rule(
        "os_compute_api:servers:detail:get_all_tenants",
        ADMIN,
        "Show and use the servers of all projects.",
        "GET /servers/detail?all_tenants=1",
    ),
    rule(
        "os_compute_api:servers:allow_all_filters",
        ADMIN,
        "Filter lists of servers by all attributes; for other users, these filters are ignored.",
        "GET /servers",
        "GET /servers/detail",
    ),
    rule("os_compute_api:servers:show", READER, "Show a server; also checked for all actions on it."),
    rule(
        "os_compute_api:os-extended-server-attributes",
        ADMIN,
        "Show the host of a server, the host's details of its faults, and the weights of hosts.",
        "GET /servers/detail",
        "GET /servers/{server_id}",
        "GET /servers/{server_id}/novella-scheduling",
    ),
    rule(
        "os_compute_api:servers:show:host_status",
        ADMIN,
        "Show whether a server's host is up.",
        "GET /servers/detail",
        "GET /servers/{server_id}",
        "PUT /servers/{server_id}",
    ),
    rule(
        "novella:servers:file_systems",
        MEMBER,
        "List the mounted file systems of a server through its guest agent.",
        "GET /instances/{server_id}/file-systems/",
    ),
    rule(
        "novella:servers:guest_disks",
        MEMBER,
        "Mount volumes and extend their file systems in a server through its guest agent.",
        "POST /instances/{server_id}/volumes/{volume_id}/mount/",
        "POST /instances/{server_id}/volumes/{volume_id}/extend-file-system/",
    ),
    rule("novella:servers:scheduling", READER, "Show how a server was scheduled, or why it was not."),
    rule("novella:servers:measures", READER, "Show what a server uses."),
    rule("novella:measures", READER, "Show what the project's servers use together."),
    rule("os_compute_api:servers:create", MEMBER, "Launch servers."),
    rule("novella:would_fit", READER, "Show how many servers of a flavor could be scheduled now."),
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
        "Launch a server from an image with a flavor of disk size 0: its root disk is as large as the image.",
        "POST /servers",
    ),
    rule(
        "novella:would_fit:hosts",
        ADMIN,
        "Use it with any amounts, and show the hosts.",
        "POST /novella-would-fit",
    ),
    rule("os_compute_api:servers:update", MEMBER, "Update a server's name, description and access addresses."),
)
