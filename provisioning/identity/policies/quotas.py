"""Quotas, limits and usage."""

from provisioning.identity.policies.base import ADMIN, READER, rule

OWN = f"{ADMIN} or ({READER} and project_id:%(project_id)s)"

RULES = (
    rule("os_compute_api:limits", READER, "Show the project's limits and usage."),
    rule(
        "os_compute_api:limits:other_project",
        ADMIN,
        "Show another project's limits and usage.",
        "GET /limits?tenant_id={project_id}",
    ),
    rule("os_compute_api:os-quota-sets:show", OWN, "Show a project's quotas."),
    rule("os_compute_api:os-quota-sets:detail", OWN, "Show quotas with their usage."),
    rule("os_compute_api:os-quota-sets:defaults", READER, "Show the default quotas."),
    rule("os_compute_api:os-quota-sets:update", ADMIN, "Change a project's quotas."),
    rule("os_compute_api:os-quota-sets:delete", ADMIN, "Reset a project's quotas to the defaults."),
    rule("os_compute_api:os-quota-class-sets:show", ADMIN, "Show the cloud's default quotas."),
    rule("os_compute_api:os-quota-class-sets:update", ADMIN, "Change the default quotas."),
    rule("novella:get_quotas", ADMIN, "List projects with their own quotas."),
    rule("get_quota", OWN, "Show a project's quotas, the defaults, and the project whose quotas apply to the caller."),
    rule("update_quota", ADMIN, "Change a project's quotas."),
    rule("delete_quota", ADMIN, "Reset a project's quotas to the defaults."),
)
