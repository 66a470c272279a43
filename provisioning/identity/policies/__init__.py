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
RULES: dict[str, Rule] = {
    each.name: each
    for each in (
        *SHARED,
        *compute.RULES,
        *image.RULES,
        *network.RULES,
        *quotas.RULES,
        *authentication.RULES,
        *directory.RULES,
        *grants.RULES,
        *credentials.RULES,
        *faces.RULES,
    )
}
