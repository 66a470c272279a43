"""What projects used, and the audits of it."""

from provisioning.identity.policies.base import ADMIN, READER, rule

RULES = (
    rule("os_compute_api:os-simple-tenant-usage:list", ADMIN, "See what every project used."),
    rule(
        "os_compute_api:os-simple-tenant-usage:show",
        f"{ADMIN} or ({READER} and project_id:%(project_id)s)",
        "See what a project used.",
    ),
    rule("os_compute_api:os-instance-usage-audit-log:list", ADMIN, "See the audits of the last period."),
    rule("os_compute_api:os-instance-usage-audit-log:show", ADMIN, "See the audits of a period before a time."),
)
