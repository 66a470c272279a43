"""Usage of projects, and usage audits."""

from provisioning.identity.policies.base import ADMIN, READER, rule

RULES = (
    rule("os_compute_api:os-simple-tenant-usage:list", ADMIN, "Show the usage of all projects."),
    rule(
        "os_compute_api:os-simple-tenant-usage:show",
        f"{ADMIN} or ({READER} and project_id:%(project_id)s)",
        "Show the usage of a project.",
    ),
    rule("os_compute_api:os-instance-usage-audit-log:list", ADMIN, "Show the usage audits of the last period."),
    rule(
        "os_compute_api:os-instance-usage-audit-log:show", ADMIN, "Show the usage audits of the period before a time."
    ),
)
