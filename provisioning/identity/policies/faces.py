"""Live pages and the operators' pages."""

from provisioning.identity.policies.base import ADMIN, READER, rule

RULES = (
    rule(
        "live:events:follow", READER, "Follow what happens in the project.", "GET /ws/v1/events", "GET /ws/dashboard"
    ),
    rule("ops:admin", ADMIN, "Use the operators' pages.", "GET /admin/"),
)
