"""Other sizes and other hosts for servers, and the records of both."""

from provisioning.identity.policies.base import ADMIN, rule

_ACTION = "POST /servers/{server_id}/action"

RULES = (
    rule("os_compute_api:os-migrate-server:migrate", ADMIN, "Move a server that is off to another host."),
    rule("os_compute_api:os-migrate-server:migrate:host", ADMIN, "Name the host it is to be moved to (2.56).", _ACTION),
    rule("os_compute_api:os-migrate-server:migrate_live", ADMIN, "Move a server that runs to another host."),
    rule(
        "os_compute_api:os-migrate-server:migrate_live:host",
        ADMIN,
        "Name the host that a running server is to be moved to.",
        _ACTION,
    ),
    rule("os_compute_api:os-evacuate", ADMIN, "Build a server anew on another host when its own is down."),
    rule("os_compute_api:os-migrations:index", ADMIN, "List migrations and resizes of all projects."),
    rule("os_compute_api:servers:migrations:index", ADMIN, "List a server's live migrations that go on."),
    rule("os_compute_api:servers:migrations:show", ADMIN, "Show a live migration that goes on."),
    rule("os_compute_api:servers:migrations:force_complete", ADMIN, "Let a live migration come to its end."),
    rule("os_compute_api:servers:migrations:delete", ADMIN, "Break a live migration off."),
)
