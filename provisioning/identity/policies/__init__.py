"""Every rule of the cloud, in the order of the documentation; one module for each part."""

from provisioning.identity.policies import (
    authentication,
    compute,
    credentials,
    directory,
    faces,
    grants,
    image,
    network,
    quotas,
)
from provisioning.identity.policies.base import EVERY_SCOPE, Rule

SHARED = (
    Rule(
        "admin_required",
        "role:admin and not token_scope:domain",
        "Operates the cloud: the role admin on a project or on the system.",
        scopes=EVERY_SCOPE,
    ),
    Rule(
        "domain_admin",
        "role:admin and token_scope:domain and domain_id:%(domain_id)s",
        "Administers the domain that the object is in: the role admin on that domain.",
        scopes=EVERY_SCOPE,
    ),
)
PARTS: tuple[tuple[str, tuple[Rule, ...]], ...] = (
    ("Rules that others name", SHARED),
    ("Compute", compute.RULES),
    ("Quotas and limits", quotas.RULES),
    ("Image", image.RULES),
    ("Network", network.RULES),
    ("Identity: tokens", authentication.RULES),
    ("Identity: domains, projects, users and groups", directory.RULES),
    ("Identity: roles, assignments and the catalog", grants.RULES),
    ("Identity: credentials", credentials.RULES),
    ("Live pages and the operators' pages", faces.RULES),
)
"""The rules by the headings of the documentation."""
RULES: dict[str, Rule] = {rule.name: rule for _, rules in PARTS for rule in rules}
