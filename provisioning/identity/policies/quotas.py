"""Quotas, limits and usage."""

from provisioning.identity.policies.base import ADMIN, READER, rule

OWN = f"{ADMIN} or ({READER} and project_id:%(project_id)s)"

RULES = (
    rule("os_compute_api:limits", READER, "Show the project's limits and usage.", "GET /limits"),
    rule("os_compute_api:limits:other_project", ADMIN, "Show another project's.", "GET /limits?tenant_id={project_id}"),
    rule("os_compute_api:os-quota-sets:show", OWN, "Show a project's quotas.", "GET /os-quota-sets/{project_id}"),
    rule(
        "os_compute_api:os-quota-sets:detail",
        OWN,
        "Show quotas with what is used.",
        "GET /os-quota-sets/{project_id}/detail",
    ),
    rule(
        "os_compute_api:os-quota-sets:defaults",
        READER,
        "Show the default quotas.",
        "GET /os-quota-sets/{project_id}/defaults",
    ),
    rule("os_compute_api:os-quota-sets:update", ADMIN, "Change a project's quotas.", "PUT /os-quota-sets/{project_id}"),
    rule(
        "os_compute_api:os-quota-sets:delete",
        ADMIN,
        "Give a project the default quotas.",
        "DELETE /os-quota-sets/{project_id}",
    ),
    rule(
        "os_compute_api:os-quota-class-sets:show",
        ADMIN,
        "Show the cloud's default quotas.",
        "GET /os-quota-class-sets/{class_name}",
    ),
    rule(
        "os_compute_api:os-quota-class-sets:update",
        ADMIN,
        "Change the default quotas.",
        "PUT /os-quota-class-sets/{class_name}",
    ),
    rule("novella:get_quotas", ADMIN, "List projects with quotas of their own.", "GET /v2.0/quotas"),
    rule(
        "get_quota",
        OWN,
        "Show a project's quotas, the defaults, and whose quotas bind the caller.",
        "GET /v2.0/quotas/{project_id}",
        "GET /v2.0/quotas/{project_id}/details",
        "GET /v2.0/quotas/{project_id}/default",
        "GET /v2.0/quotas/tenant",
        "GET /v2.0/quotas/project",
    ),
    rule("update_quota", ADMIN, "Change a project's quotas.", "PUT /v2.0/quotas/{project_id}"),
    rule("delete_quota", ADMIN, "Give a project the default quotas.", "DELETE /v2.0/quotas/{project_id}"),
)
