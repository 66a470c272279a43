"""Live updates, account settings and the operators' pages."""

from provisioning.identity.policies.base import ADMIN, READER, identity_rule, rule

RULES = (
    rule(
        "novella:events:follow", READER, "Receive the events of the project.", "GET /ws/v1/events", "GET /ws/dashboard"
    ),
    rule(
        "novella:notifications:follow",
        READER,
        "Receive notifications about the project's servers, without names of hosts.",
        "GET /ws/v1/events?topic=notifications",
    ),
    rule(
        "novella:notifications:follow:all_projects",
        ADMIN,
        "Receive all notifications.",
        "GET /ws/v1/events?topic=notifications&all_projects=1",
    ),
    identity_rule(
        "novella:update_profile",
        "user_id:%(user_id)s",
        "Change the caller's email address, description and default project.",
        "POST /settings/",
    ),
    identity_rule(
        "novella:list_sign_ins", "user_id:%(user_id)s", "List the caller's sessions.", "GET /settings/sessions/"
    ),
    identity_rule(
        "novella:end_sign_in",
        "user_id:%(user_id)s",
        "End the caller's sessions.",
        "POST /settings/sessions/end/",
        "POST /settings/sessions/{sign_in_id}/end/",
    ),
    rule("novella:admin", ADMIN, "Use the operators' pages.", "GET /admin/"),
    rule("novella:cloud", ADMIN, "Show the state of the whole cloud and its present faults.", "GET /cloud/"),
    rule("novella:drains:show", ADMIN, "Show drains of hosts and their plans."),
    rule(
        "novella:drains:create",
        ADMIN,
        "Drain hosts, and pause, cancel and reverse drains.",
    ),
    rule("novella:metrics", ADMIN, "Read the metrics with a token or a session.", "GET /metrics"),
    rule("novella:periodic", ADMIN, "Show when periodic work last ran.", "GET /admin/jobs/lease/"),
    rule("novella:doctor", ADMIN, "Show the doctor's reports.", "GET /admin/doctor/doctorrun/"),
    rule(
        "novella:doctor:run",
        ADMIN,
        "Run the doctor, and its repairs.",
        "POST /admin/doctor/doctorrun/examine/",
    ),
    rule(
        "novella:rejected_reports",
        ADMIN,
        "Show reports of hosts that could not be processed.",
        "GET /admin/hosts/rejectedreport/",
    ),
    rule(
        "novella:rejected_reports:try_again",
        ADMIN,
        "Retry reports of hosts that could not be processed.",
        "POST /admin/hosts/rejectedreport/ (try_again)",
    ),
    rule(
        "novella:deliveries",
        ADMIN,
        "Show notifications that the webhook has not accepted.",
        "GET /admin/notifications/delivery/",
    ),
    rule(
        "novella:deliveries:send_again",
        ADMIN,
        "Send a notification to the webhook again.",
        "POST /admin/notifications/delivery/ (send_again)",
    ),
    rule(
        "novella:deliveries:drop",
        ADMIN,
        "Delete notifications that the webhook has not accepted.",
        "POST /admin/notifications/delivery/ (drop)",
    ),
)
