"""Quotas, limits and usage."""

from provisioning.identity.policies.base import ADMIN, READER, rule

OWN = f"{ADMIN} or ({READER} and project_id:%(project_id)s)"

RULES = (
    rule("compute:limits:show", READER, "Show the project's limits and usage.", "GET /limits"),
    rule("compute:limits:show:other_project", ADMIN, "Show another project's.", "GET /limits?tenant_id={project_id}"),
    rule("compute:quotas:show", OWN, "Show a project's quotas.", "GET /os-quota-sets/{project_id}"),
    rule("compute:quotas:show:detail", OWN, "Show quotas with what is used.", "GET /os-quota-sets/{project_id}/detail"),
    rule("compute:quotas:defaults", READER, "Show the default quotas.", "GET /os-quota-sets/{project_id}/defaults"),
    rule("compute:quotas:update", ADMIN, "Change a project's quotas.", "PUT /os-quota-sets/{project_id}"),
    rule("compute:quotas:delete", ADMIN, "Give a project the default quotas.", "DELETE /os-quota-sets/{project_id}"),
    rule(
        "compute:quota_classes:show", ADMIN, "Show the cloud's default quotas.", "GET /os-quota-class-sets/{class_name}"
    ),
    rule("compute:quota_classes:update", ADMIN, "Change the default quotas.", "PUT /os-quota-class-sets/{class_name}"),
    rule("network:quotas:list", ADMIN, "List projects with quotas of their own.", "GET /v2.0/quotas"),
    rule(
        "network:quotas:tenant",
        READER,
        "Show whose quotas bind the caller.",
        "GET /v2.0/quotas/tenant",
        "GET /v2.0/quotas/project",
    ),
    rule("network:quotas:show", OWN, "Show a project's quotas.", "GET /v2.0/quotas/{project_id}"),
    rule("network:quotas:show:detail", OWN, "Show quotas with what is used.", "GET /v2.0/quotas/{project_id}/details"),
    rule("network:quotas:default", READER, "Show the default quotas.", "GET /v2.0/quotas/{project_id}/default"),
    rule("network:quotas:update", ADMIN, "Change a project's quotas.", "PUT /v2.0/quotas/{project_id}"),
    rule("network:quotas:delete", ADMIN, "Give a project the default quotas.", "DELETE /v2.0/quotas/{project_id}"),
)
