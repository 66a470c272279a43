"""Live pages and the operators' pages."""

from provisioning.identity.policies.base import ADMIN, READER, identity_rule, rule

RULES = (
    rule(
        "novella:events:follow", READER, "Follow what happens in the project.", "GET /ws/v1/events", "GET /ws/dashboard"
    ),
    rule(
        "novella:notifications:follow",
        READER,
        "Follow the notifications about the project's servers, without names of hosts.",
        "GET /ws/v1/events?topic=notifications",
    ),
    rule(
        "novella:notifications:follow:all_projects",
        ADMIN,
        "Follow all notifications.",
        "GET /ws/v1/events?topic=notifications&all_projects=1",
    ),
    identity_rule(
        "novella:update_profile",
        "user_id:%(user_id)s",
        "Change one's own email address, description and default project.",
        "POST /settings/",
    ),
    identity_rule("novella:list_sign_ins", "user_id:%(user_id)s", "List one's sessions.", "GET /settings/sessions/"),
    identity_rule(
        "novella:end_sign_in",
        "user_id:%(user_id)s",
        "End one's sessions.",
        "POST /settings/sessions/end/",
        "POST /settings/sessions/{sign_in_id}/end/",
    ),
    rule("novella:admin", ADMIN, "Use the operators' pages.", "GET /admin/"),
    rule("novella:metrics", ADMIN, "Read the metrics with a token or a session.", "GET /metrics"),
    rule("novella:periodic", ADMIN, "See when periodic work last ran.", "GET /admin/jobs/lease/"),
    rule("novella:doctor", ADMIN, "Read what the doctor found.", "GET /admin/doctor/doctorrun/"),
    rule(
        "novella:doctor:run",
        ADMIN,
        "Have the doctor examine the cloud, and repair it.",
        "POST /admin/doctor/doctorrun/examine/",
    ),
    rule(
        "novella:rejected_reports",
        ADMIN,
        "See reports of hosts that could not be dealt with.",
        "GET /admin/hosts/rejectedreport/",
    ),
    rule(
        "novella:rejected_reports:try_again",
        ADMIN,
        "Have reports of hosts that could not be dealt with tried again.",
        "POST /admin/hosts/rejectedreport/ (try_again)",
    ),
    rule("novella:deliveries", ADMIN, "See what the webhook has not taken.", "GET /admin/notifications/delivery/"),
    rule(
        "novella:deliveries:send_again",
        ADMIN,
        "Send a notification to the webhook again.",
        "POST /admin/notifications/delivery/ (send_again)",
    ),
    rule(
        "novella:deliveries:drop",
        ADMIN,
        "Forget notifications that the webhook has not taken.",
        "POST /admin/notifications/delivery/ (drop)",
    ),
)
