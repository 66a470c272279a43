"""What can be done with a server."""

from provisioning.identity.policies.base import ADMIN, MEMBER, rule

RULES = (
    rule(
        "compute:servers:force_delete",
        MEMBER,
        "Delete a server at once.",
        "POST /servers/{server_id}/action (forceDelete)",
    ),
    rule(
        "compute:servers:override_lock",
        ADMIN,
        "Act on a server that is locked.",
        "POST /servers/{server_id}/action",
        "DELETE /servers/{server_id}",
    ),
    rule(
        "compute:servers:give_up",
        ADMIN,
        "End a launch that goes on, clean up and set the server to error.",
        "POST /admin/compute/instance/ (give_up)",
    ),
    rule("compute:servers:start", MEMBER, "Start a server.", "POST /servers/{server_id}/action (os-start)"),
    rule("compute:servers:stop", MEMBER, "Stop a server.", "POST /servers/{server_id}/action (os-stop)"),
    rule("compute:servers:reboot", MEMBER, "Reboot a server.", "POST /servers/{server_id}/action (reboot)"),
    rule(
        "compute:servers:console_output",
        MEMBER,
        "Read a server's console log.",
        "POST /servers/{server_id}/action (os-getConsoleOutput)",
    ),
    rule("compute:servers:pause", MEMBER, "Pause a server.", "POST /servers/{server_id}/action (pause)"),
    rule("compute:servers:unpause", MEMBER, "Let a paused server go on.", "POST /servers/{server_id}/action (unpause)"),
    rule("compute:servers:suspend", MEMBER, "Suspend a server.", "POST /servers/{server_id}/action (suspend)"),
    rule("compute:servers:resume", MEMBER, "Resume a suspended server.", "POST /servers/{server_id}/action (resume)"),
    rule(
        "compute:servers:trigger_crash_dump",
        MEMBER,
        "Make a server's kernel dump itself.",
        "POST /servers/{server_id}/action (trigger_crash_dump)",
    ),
    rule(
        "compute:servers:change_password",
        MEMBER,
        "Set the administrator's password of a server.",
        "POST /servers/{server_id}/action (changePassword)",
    ),
    rule("compute:servers:lock", MEMBER, "Lock a server.", "POST /servers/{server_id}/action (lock)"),
    rule("compute:servers:unlock", MEMBER, "Unlock a server.", "POST /servers/{server_id}/action (unlock)"),
    rule(
        "compute:servers:reset_state",
        ADMIN,
        "Set the state of a server by hand.",
        "POST /servers/{server_id}/action (os-resetState)",
    ),
    rule("compute:servers:restore", MEMBER, "Restore a deleted server.", "POST /servers/{server_id}/action (restore)"),
    rule(
        "compute:servers:inject_network_info",
        ADMIN,
        "Answered with 410.",
        "POST /servers/{server_id}/action (injectNetworkInfo)",
    ),
    rule(
        "compute:servers:reset_network", ADMIN, "Answered with 410.", "POST /servers/{server_id}/action (resetNetwork)"
    ),
    rule("compute:servers:diagnostics", ADMIN, "See a server's counters.", "GET /servers/{server_id}/diagnostics"),
    rule(
        "compute:servers:rescue",
        MEMBER,
        "Start a server from another disk.",
        "POST /servers/{server_id}/action (rescue)",
    ),
    rule(
        "compute:servers:unrescue",
        MEMBER,
        "Start a rescued server from its own disk.",
        "POST /servers/{server_id}/action (unrescue)",
    ),
    rule(
        "compute:servers:rebuild",
        MEMBER,
        "Make a server's disks anew from an image.",
        "POST /servers/{server_id}/action (rebuild)",
    ),
    rule(
        "compute:servers:rebuild:trusted_certs",
        MEMBER,
        "Rebuild a server with trusted image certificates (2.63).",
        "POST /servers/{server_id}/action",
    ),
    rule(
        "compute:servers:create_image",
        MEMBER,
        "Make an image of a server.",
        "POST /servers/{server_id}/action (createImage)",
    ),
    rule(
        "compute:servers:create_backup",
        MEMBER,
        "Make the next of a server's backups.",
        "POST /servers/{server_id}/action (createBackup)",
    ),
    rule("compute:servers:shelve", MEMBER, "Shelve a server.", "POST /servers/{server_id}/action (shelve)"),
    rule(
        "compute:servers:shelve_offload",
        ADMIN,
        "Take a shelved server off its host.",
        "POST /servers/{server_id}/action (shelveOffload)",
    ),
    rule("compute:servers:unshelve", MEMBER, "Unshelve a server.", "POST /servers/{server_id}/action (unshelve)"),
    rule(
        "compute:servers:unshelve_to_host",
        ADMIN,
        "Say on which host a server is unshelved (2.91).",
        "POST /servers/{server_id}/action",
    ),
)
