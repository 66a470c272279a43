"""What projects used, and the audits of it."""

from provisioning.identity.policies.base import ADMIN, READER, rule

RULES = (
    rule(
        "os_compute_api:os-simple-tenant-usage:list",
        ADMIN,
        "See what every project used.",
        "GET /os-simple-tenant-usage",
    ),
    rule(
        "os_compute_api:os-simple-tenant-usage:show",
        f"{ADMIN} or ({READER} and project_id:%(project_id)s)",
        "See what a project used.",
        "GET /os-simple-tenant-usage/{project_id}",
    ),
    rule(
        "os_compute_api:os-instance-usage-audit-log:list",
        ADMIN,
        "See the audits of the last period.",
        "GET /os-instance_usage_audit_log",
    ),
    rule(
        "os_compute_api:os-instance-usage-audit-log:show",
        ADMIN,
        "See the audits of a period before a time.",
        "GET /os-instance_usage_audit_log/{before}",
    ),
)
