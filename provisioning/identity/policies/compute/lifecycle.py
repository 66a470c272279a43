"""What can be done with a server."""

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
    rule("os_compute_api:servers:start", MEMBER, "Start a server."),
    rule("os_compute_api:servers:stop", MEMBER, "Stop a server."),
    rule("os_compute_api:servers:reboot", MEMBER, "Reboot a server."),
    rule("os_compute_api:os-console-output", MEMBER, "Read a server's console log."),
    rule("os_compute_api:os-pause-server:pause", MEMBER, "Pause a server."),
    rule("os_compute_api:os-pause-server:unpause", MEMBER, "Let a paused server go on."),
    rule("os_compute_api:os-suspend-server:suspend", MEMBER, "Suspend a server."),
    rule("os_compute_api:os-suspend-server:resume", MEMBER, "Resume a suspended server."),
    rule("os_compute_api:servers:trigger_crash_dump", MEMBER, "Make a server's kernel dump itself."),
    rule("os_compute_api:os-admin-password", MEMBER, "Set the administrator's password of a server."),
    rule("os_compute_api:os-lock-server:lock", MEMBER, "Lock a server."),
    rule("os_compute_api:os-lock-server:unlock", MEMBER, "Unlock a server."),
    rule("os_compute_api:os-admin-actions:reset_state", ADMIN, "Set the state of a server by hand."),
    rule("os_compute_api:os-deferred-delete:restore", MEMBER, "Restore a deleted server."),
    rule("os_compute_api:os-admin-actions:inject_network_info", ADMIN, "Answered with 410."),
    rule("os_compute_api:os-admin-actions:reset_network", ADMIN, "Answered with 410."),
    rule("os_compute_api:os-server-diagnostics", ADMIN, "See a server's counters."),
    rule("os_compute_api:os-rescue", MEMBER, "Start a server from another disk."),
    rule("os_compute_api:os-unrescue", MEMBER, "Start a rescued server from its own disk."),
    rule("os_compute_api:servers:rebuild", MEMBER, "Make a server's disks anew from an image."),
    rule(
        "os_compute_api:servers:rebuild:trusted_certs",
        MEMBER,
        "Rebuild a server with trusted image certificates (2.63).",
        "POST /servers/{server_id}/action",
    ),
    rule("os_compute_api:servers:create_image", MEMBER, "Make an image of a server."),
    rule("os_compute_api:os-create-backup", MEMBER, "Make the next of a server's backups."),
    rule("os_compute_api:os-shelve:shelve", MEMBER, "Shelve a server."),
    rule("os_compute_api:os-shelve:shelve_offload", ADMIN, "Take a shelved server off its host."),
    rule("os_compute_api:os-shelve:unshelve", MEMBER, "Unshelve a server."),
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
        "os_compute_api:os-floating-ips:add", MEMBER, "Give a server a floating address (up to 2.43); there are none."
    ),
    rule(
        "os_compute_api:os-floating-ips:remove",
        MEMBER,
        "Take a floating address from a server (up to 2.43); there are none.",
    ),
)
