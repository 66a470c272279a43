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
)
