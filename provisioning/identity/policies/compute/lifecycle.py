"""Operations on servers, besides the actions that add their own rules (``provisioning.compute.actions``)."""

from provisioning.identity.policies.base import ADMIN, MEMBER, rule

RULES = (
    rule("os_compute_api:os-deferred-delete:force", MEMBER, "Delete a server immediately."),
    rule(
        "os_compute_api:os-lock-server:unlock:unlock_override",
        ADMIN,
        "Carry out actions on a locked server.",
        "POST /servers/{server_id}/action",
        "DELETE /servers/{server_id}",
    ),
    rule(
        "novella:servers:give_up",
        ADMIN,
        "Abort a running launch, clean up and set the server to error.",
        "POST /admin/compute/instance/ (give_up)",
    ),
    rule("os_compute_api:os-console-output", MEMBER, "Read a server's console log."),
    rule(
        "os_compute_api:os-admin-actions:inject_network_info",
        ADMIN,
        "Send a server's interfaces to its host again.",
    ),
    rule("os_compute_api:os-server-diagnostics", ADMIN, "Show a server's diagnostics."),
    rule(
        "os_compute_api:servers:rebuild:trusted_certs",
        MEMBER,
        "Rebuild a server with trusted image certificates (2.63).",
        "POST /servers/{server_id}/action",
    ),
    rule(
        "os_compute_api:os-shelve:unshelve_to_host",
        ADMIN,
        "Specify the host on which a server is unshelved (2.91).",
        "POST /servers/{server_id}/action",
    ),
    rule("os_compute_api:os-security-groups:add", MEMBER, "Add a security group to a server."),
    rule("os_compute_api:os-security-groups:remove", MEMBER, "Remove a security group from a server."),
    rule("os_compute_api:os-multinic:add", MEMBER, "Add a fixed IP to a server (up to 2.43)."),
    rule("os_compute_api:os-multinic:remove", MEMBER, "Remove a fixed IP from a server (up to 2.43)."),
    rule(
        "os_compute_api:os-floating-ips:add",
        MEMBER,
        "Associate a floating IP with a server (up to 2.43); also requires update_floatingip.",
    ),
    rule(
        "os_compute_api:os-floating-ips:remove",
        MEMBER,
        "Disassociate a floating IP from a server (up to 2.43); also requires update_floatingip.",
    ),
)
