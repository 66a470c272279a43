"""Live pages and the operators' pages."""

from provisioning.identity.policies.base import ADMIN, READER, identity_rule, rule

RULES = (
    rule("live:events:follow", READER, "Follow what happens in the project.", "GET /ws/v1/events", "GET /ws/dashboard"),
    identity_rule(
        "identity:profile:update",
        "user_id:%(user_id)s",
        "Change one's own email address, description and default project.",
        "POST /settings/",
    ),
    identity_rule("identity:sign_ins:list", "user_id:%(user_id)s", "List one's sessions.", "GET /settings/sessions/"),
    identity_rule(
        "identity:sign_ins:end",
        "user_id:%(user_id)s",
        "End one's sessions.",
        "POST /settings/sessions/end/",
        "POST /settings/sessions/{sign_in_id}/end/",
    ),
    rule("ops:admin", ADMIN, "Use the operators' pages.", "GET /admin/"),
)
