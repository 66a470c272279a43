"""What can be done with a server, beside the actions that bring their rules (``provisioning.compute.actions``)."""

from provisioning.identity.policies.base import ADMIN, MEMBER, rule

RULES = (
    rule("os_compute_api:os-deferred-delete:force", MEMBER, "Delete a server at once."),
    rule(
        "os_compute_api:os-lock-server:unlock:unlock_override",
        ADMIN,
        "Act on a server that is locked.",
        "POST /servers/{server_id}/action",
        "DELETE /servers/{server_id}",
    ),
    rule(
        "novella:servers:give_up",
        ADMIN,
        "End a launch that goes on, clean up and set the server to error.",
        "POST /admin/compute/instance/ (give_up)",
    ),
    rule("os_compute_api:os-console-output", MEMBER, "Read a server's console log."),
    rule(
        "os_compute_api:os-admin-actions:inject_network_info",
        ADMIN,
        "Let the host of a server know its interfaces once more.",
    ),
    rule("os_compute_api:os-server-diagnostics", ADMIN, "See a server's counters."),
    rule(
        "os_compute_api:servers:rebuild:trusted_certs",
        MEMBER,
        "Rebuild a server with trusted image certificates (2.63).",
        "POST /servers/{server_id}/action",
    ),
    rule(
        "os_compute_api:os-shelve:unshelve_to_host",
        ADMIN,
        "Say on which host a server is unshelved (2.91).",
        "POST /servers/{server_id}/action",
    ),
    rule("os_compute_api:os-security-groups:add", MEMBER, "Put a server into a security group."),
    rule("os_compute_api:os-security-groups:remove", MEMBER, "Take a server out of a security group."),
    rule("os_compute_api:os-multinic:add", MEMBER, "Give a server another fixed address (up to 2.43)."),
    rule("os_compute_api:os-multinic:remove", MEMBER, "Take a fixed address from a server (up to 2.43)."),
    rule(
        "os_compute_api:os-floating-ips:add",
        MEMBER,
        "Lead a floating IP to a server (up to 2.43); update_floatingip is asked too.",
    ),
    rule(
        "os_compute_api:os-floating-ips:remove",
        MEMBER,
        "Take a floating IP from a server (up to 2.43); update_floatingip is asked too.",
    ),
)
