"""What belongs to a server."""

from provisioning.identity.policies.base import ADMIN, MEMBER, READER, rule

RULES = (
    rule("compute:server_metadata:list", READER, "List a server's metadata.", "GET /servers/{server_id}/metadata"),
    rule("compute:server_metadata:show", READER, "Show one metadata item.", "GET /servers/{server_id}/metadata/{key}"),
    rule("compute:server_metadata:create", MEMBER, "Add metadata.", "POST /servers/{server_id}/metadata"),
    rule(
        "compute:server_metadata:update",
        MEMBER,
        "Change metadata.",
        "PUT /servers/{server_id}/metadata",
        "PUT /servers/{server_id}/metadata/{key}",
    ),
    rule("compute:server_metadata:delete", MEMBER, "Remove metadata.", "DELETE /servers/{server_id}/metadata/{key}"),
    rule("compute:server_tags:list", READER, "List a server's tags.", "GET /servers/{server_id}/tags"),
    rule("compute:server_interfaces:list", READER, "List a server's ports.", "GET /servers/{server_id}/os-interface"),
    rule(
        "compute:server_interfaces:show",
        READER,
        "Show one port of a server.",
        "GET /servers/{server_id}/os-interface/{port_id}",
    ),
    rule("compute:server_ips:list", READER, "List a server's addresses.", "GET /servers/{server_id}/ips"),
    rule(
        "compute:server_ips:show",
        READER,
        "List a server's addresses in one network.",
        "GET /servers/{server_id}/ips/{network_label}",
    ),
    rule(
        "compute:server_security_groups:list",
        READER,
        "List a server's security groups.",
        "GET /servers/{server_id}/os-security-groups",
    ),
    rule(
        "compute:server_volumes:list",
        READER,
        "List a server's volumes.",
        "GET /servers/{server_id}/os-volume_attachments",
    ),
    rule(
        "compute:instance_actions:list",
        READER,
        "List what was done with a server.",
        "GET /servers/{server_id}/os-instance-actions",
    ),
    rule(
        "compute:instance_actions:show",
        READER,
        "Show one action.",
        "GET /servers/{server_id}/os-instance-actions/{request_id}",
    ),
    rule(
        "compute:instance_actions:events",
        READER,
        "See the steps of an action.",
        "GET /servers/{server_id}/os-instance-actions/{request_id}",
    ),
    rule(
        "compute:instance_actions:events:details",
        ADMIN,
        "See hosts and tracebacks of the steps.",
        "GET /servers/{server_id}/os-instance-actions/{request_id}",
    ),
)
