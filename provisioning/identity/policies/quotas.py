"""Quotas, limits and usage."""

from provisioning.identity.policies.base import ADMIN, READER, rule

OWN = f"{ADMIN} or ({READER} and project_id:%(project_id)s)"

RULES = (
    rule("os_compute_api:limits", READER, "Show the project's limits and usage."),
    rule("os_compute_api:limits:other_project", ADMIN, "Show another project's.", "GET /limits?tenant_id={project_id}"),
    rule("os_compute_api:os-quota-sets:show", OWN, "Show a project's quotas."),
    rule("os_compute_api:os-quota-sets:detail", OWN, "Show quotas with what is used."),
    rule("os_compute_api:os-quota-sets:defaults", READER, "Show the default quotas."),
    rule("os_compute_api:os-quota-sets:update", ADMIN, "Change a project's quotas."),
    rule("os_compute_api:os-quota-sets:delete", ADMIN, "Give a project the default quotas."),
    rule("os_compute_api:os-quota-class-sets:show", ADMIN, "Show the cloud's default quotas."),
    rule("os_compute_api:os-quota-class-sets:update", ADMIN, "Change the default quotas."),
    rule("novella:get_quotas", ADMIN, "List projects with quotas of their own."),
    rule("get_quota", OWN, "Show a project's quotas, the defaults, and whose quotas bind the caller."),
    rule("update_quota", ADMIN, "Change a project's quotas."),
    rule("delete_quota", ADMIN, "Give a project the default quotas."),
)
