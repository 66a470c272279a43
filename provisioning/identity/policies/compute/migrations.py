"""Cold and live migration, evacuation, and the records of migrations."""

from provisioning.identity.policies.base import ADMIN, MANAGER, rule

_ACTION = "POST /servers/{server_id}/action"

RULES = (
    rule("os_compute_api:os-migrate-server:migrate", MANAGER, "Migrate a stopped server to another host."),
    rule("os_compute_api:os-migrate-server:migrate:host", ADMIN, "Specify the host of a migration (2.56).", _ACTION),
    rule("os_compute_api:os-migrate-server:migrate_live", MANAGER, "Migrate a running server to another host."),
    rule(
        "os_compute_api:os-migrate-server:migrate_live:host",
        ADMIN,
        "Specify the host of a live migration.",
        _ACTION,
    ),
    rule("os_compute_api:os-evacuate", ADMIN, "Evacuate a server to another host when its own is down."),
    rule("os_compute_api:os-migrations:index", MANAGER, "List migrations and resizes of the caller's project."),
    rule(
        "os_compute_api:os-migrations:index:all_projects",
        ADMIN,
        "List migrations and resizes of all projects.",
        "GET /os-migrations",
    ),
    rule(
        "os_compute_api:os-migrations:index:host",
        ADMIN,
        "Show the source and destination hosts of migrations.",
        "GET /os-migrations",
    ),
    rule("os_compute_api:servers:migrations:index", MANAGER, "List a server's running live migrations."),
    rule("os_compute_api:servers:migrations:show", ADMIN, "Show a running live migration."),
    rule("os_compute_api:servers:migrations:force_complete", MANAGER, "Force a live migration to complete."),
    rule("os_compute_api:servers:migrations:delete", MANAGER, "Abort a live migration."),
)
