"""Other sizes and other hosts for servers, and the records of both."""

from provisioning.identity.policies.base import ADMIN, MEMBER, rule

_ACTION = "POST /servers/{server_id}/action"
_MIGRATION = "/servers/{server_id}/migrations/{migration_id}"

RULES = (
    rule("compute:servers:resize", MEMBER, "Give a server another flavor.", f"{_ACTION} (resize)"),
    rule("compute:servers:confirm_resize", MEMBER, "Keep a server's new size.", f"{_ACTION} (confirmResize)"),
    rule("compute:servers:revert_resize", MEMBER, "Give a server its old size back.", f"{_ACTION} (revertResize)"),
    rule("compute:servers:migrate", ADMIN, "Move a server that is off to another host.", f"{_ACTION} (migrate)"),
    rule("compute:servers:migrate:host", ADMIN, "Name the host it is to be moved to (2.56).", _ACTION),
    rule(
        "compute:servers:migrate_live",
        ADMIN,
        "Move a server that runs to another host.",
        f"{_ACTION} (os-migrateLive)",
    ),
    rule(
        "compute:servers:evacuate",
        ADMIN,
        "Build a server anew on another host when its own is down.",
        f"{_ACTION} (evacuate)",
    ),
    rule("compute:migrations:list", ADMIN, "List migrations and resizes of all projects.", "GET /os-migrations"),
    rule(
        "compute:server_migrations:list",
        ADMIN,
        "List a server's live migrations that go on.",
        "GET /servers/{server_id}/migrations",
    ),
    rule("compute:server_migrations:show", ADMIN, "Show a live migration that goes on.", f"GET {_MIGRATION}"),
    rule(
        "compute:server_migrations:force_complete",
        ADMIN,
        "Let a live migration come to its end.",
        f"POST {_MIGRATION}/action",
    ),
    rule("compute:server_migrations:delete", ADMIN, "Break a live migration off.", f"DELETE {_MIGRATION}"),
)
