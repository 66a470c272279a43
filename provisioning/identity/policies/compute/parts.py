"""What belongs to a server."""

from provisioning.identity.policies.base import ADMIN, MEMBER, READER, rule

RULES = (
    rule(
        "os_compute_api:server-metadata:index", READER, "List a server's metadata.", "GET /servers/{server_id}/metadata"
    ),
    rule(
        "os_compute_api:server-metadata:show",
        READER,
        "Show one metadata item.",
        "GET /servers/{server_id}/metadata/{key}",
    ),
    rule("os_compute_api:server-metadata:create", MEMBER, "Add metadata.", "POST /servers/{server_id}/metadata"),
    rule(
        "os_compute_api:server-metadata:update_all",
        MEMBER,
        "Replace all metadata.",
        "PUT /servers/{server_id}/metadata",
    ),
    rule(
        "os_compute_api:server-metadata:update",
        MEMBER,
        "Change one metadata item.",
        "PUT /servers/{server_id}/metadata/{key}",
    ),
    rule(
        "os_compute_api:server-metadata:delete",
        MEMBER,
        "Remove metadata.",
        "DELETE /servers/{server_id}/metadata/{key}",
    ),
    rule("os_compute_api:os-server-tags:index", READER, "List a server's tags.", "GET /servers/{server_id}/tags"),
    rule(
        "os_compute_api:os-server-tags:show",
        READER,
        "Ask whether a server has a tag.",
        "GET /servers/{server_id}/tags/{tag}",
    ),
    rule("os_compute_api:os-server-tags:update", MEMBER, "Add a tag.", "PUT /servers/{server_id}/tags/{tag}"),
    rule("os_compute_api:os-server-tags:update_all", MEMBER, "Replace all tags.", "PUT /servers/{server_id}/tags"),
    rule("os_compute_api:os-server-tags:delete", MEMBER, "Remove a tag.", "DELETE /servers/{server_id}/tags/{tag}"),
    rule("os_compute_api:os-server-tags:delete_all", MEMBER, "Remove all tags.", "DELETE /servers/{server_id}/tags"),
    rule(
        "compute:server:topology:index",
        READER,
        "See a server's NUMA nodes.",
        "GET /servers/{server_id}/topology",
    ),
    rule(
        "os_compute_api:os-server-password:show",
        READER,
        "Get the encrypted password that the guest has posted.",
        "GET /servers/{server_id}/os-server-password",
    ),
    rule(
        "os_compute_api:os-server-password:clear",
        MEMBER,
        "Forget the password that the guest has posted.",
        "DELETE /servers/{server_id}/os-server-password",
    ),
    rule(
        "os_compute_api:os-attach-interfaces:list",
        READER,
        "List a server's ports.",
        "GET /servers/{server_id}/os-interface",
    ),
    rule(
        "os_compute_api:os-attach-interfaces:show",
        READER,
        "Show one port of a server.",
        "GET /servers/{server_id}/os-interface/{port_id}",
    ),
    rule(
        "os_compute_api:os-attach-interfaces:create",
        MEMBER,
        "Give a server another network card.",
        "POST /servers/{server_id}/os-interface",
    ),
    rule(
        "os_compute_api:os-attach-interfaces:delete",
        MEMBER,
        "Take a network card from a server.",
        "DELETE /servers/{server_id}/os-interface/{port_id}",
    ),
    rule(
        "os_compute_api:os-server-external-events:create",
        ADMIN,
        "Tell what happened to servers' ports, volumes or power.",
        "POST /os-server-external-events",
    ),
    rule("os_compute_api:ips:index", READER, "List a server's addresses.", "GET /servers/{server_id}/ips"),
    rule(
        "os_compute_api:ips:show",
        READER,
        "List a server's addresses in one network.",
        "GET /servers/{server_id}/ips/{network_label}",
    ),
    rule(
        "os_compute_api:os-security-groups:list",
        READER,
        "List a server's security groups.",
        "GET /servers/{server_id}/os-security-groups",
    ),
    rule(
        "os_compute_api:os-volumes-attachments:index",
        READER,
        "List a server's volumes.",
        "GET /servers/{server_id}/os-volume_attachments",
    ),
    rule(
        "os_compute_api:os-volumes-attachments:show",
        READER,
        "Show one volume of a server.",
        "GET /servers/{server_id}/os-volume_attachments/{volume_id}",
    ),
    rule(
        "os_compute_api:os-volumes-attachments:create",
        MEMBER,
        "Attach a volume.",
        "POST /servers/{server_id}/os-volume_attachments",
    ),
    rule(
        "os_compute_api:os-volumes-attachments:update",
        MEMBER,
        "Change how a volume is attached.",
        "PUT /servers/{server_id}/os-volume_attachments/{volume_id}",
    ),
    rule(
        "os_compute_api:os-volumes-attachments:delete",
        MEMBER,
        "Detach a volume.",
        "DELETE /servers/{server_id}/os-volume_attachments/{volume_id}",
    ),
    rule(
        "os_compute_api:os-instance-actions:list",
        READER,
        "List what was done with a server.",
        "GET /servers/{server_id}/os-instance-actions",
    ),
    rule(
        "os_compute_api:os-instance-actions:show",
        READER,
        "Show one action.",
        "GET /servers/{server_id}/os-instance-actions/{request_id}",
    ),
    rule(
        "os_compute_api:os-instance-actions:events",
        READER,
        "See the steps of an action.",
        "GET /servers/{server_id}/os-instance-actions/{request_id}",
    ),
    rule(
        "os_compute_api:os-instance-actions:events:details",
        ADMIN,
        "See hosts and tracebacks of the steps.",
        "GET /servers/{server_id}/os-instance-actions/{request_id}",
    ),
)
