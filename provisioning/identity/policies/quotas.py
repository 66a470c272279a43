"""Quotas, limits and usage."""

from provisioning.identity.policies.base import ADMIN, READER, rule

RULES = (
    rule("compute:limits:show", READER, "Show the project's limits and usage.", "GET /limits"),
    rule("compute:limits:show:other_project", ADMIN, "Show another project's.", "GET /limits?tenant_id={id}"),
    rule("compute:quotas:show", READER, "Show the project's quotas.", "GET /os-quota-sets/{id}"),
    rule("compute:quotas:update", ADMIN, "Change a project's quotas.", "PUT /os-quota-sets/{id}"),
    rule("network:quotas:show", READER, "Show the project's quotas.", "GET /v2.0/quotas/{id}"),
)
