"""Other sizes and other hosts for servers, and the records of both."""

from provisioning.identity.policies.base import ADMIN, MANAGER, rule

_ACTION = "POST /servers/{server_id}/action"

RULES = (
    rule("os_compute_api:os-migrate-server:migrate", MANAGER, "Move a server that is off to another host."),
    rule("os_compute_api:os-migrate-server:migrate:host", ADMIN, "Name the host it is to be moved to (2.56).", _ACTION),
    rule("os_compute_api:os-migrate-server:migrate_live", MANAGER, "Move a server that runs to another host."),
    rule(
        "os_compute_api:os-migrate-server:migrate_live:host",
        ADMIN,
        "Name the host that a running server is to be moved to.",
        _ACTION,
    ),
    rule("os_compute_api:os-evacuate", ADMIN, "Build a server anew on another host when its own is down."),
    rule("os_compute_api:os-migrations:index", MANAGER, "List migrations and resizes of the own project."),
    rule(
        "os_compute_api:os-migrations:index:all_projects",
        ADMIN,
        "List migrations and resizes of all projects.",
        "GET /os-migrations",
    ),
    rule(
        "os_compute_api:os-migrations:index:host",
        ADMIN,
        "See from which host to which.",
        "GET /os-migrations",
    ),
    rule("os_compute_api:servers:migrations:index", MANAGER, "List a server's live migrations that go on."),
    rule("os_compute_api:servers:migrations:show", ADMIN, "Show a live migration that goes on."),
    rule("os_compute_api:servers:migrations:force_complete", MANAGER, "Let a live migration come to its end."),
    rule("os_compute_api:servers:migrations:delete", MANAGER, "Break a live migration off."),
)
