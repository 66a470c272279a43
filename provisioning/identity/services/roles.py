"""Roles and what they imply."""

from __future__ import annotations

from provisioning.identity.models import ImpliedRole, Role

DEFAULT_IMPLICATIONS = (("admin", "member"), ("member", "reader"))


def ensure_role(name: str, *, description: str = "") -> Role:
    """Return the role of this name, made if absent; of the three that Novella knows, with what it implies."""
    role, made = Role.objects.get_or_create(name=name, domain=None, defaults={"description": description})
    if made:
        for prior, implied in DEFAULT_IMPLICATIONS:
            if name in {prior, implied}:
                pair = {each.name: each for each in Role.objects.filter(name__in=[prior, implied], domain=None)}
                if len(pair) == 2:
                    ImpliedRole.objects.get_or_create(prior=pair[prior], implied=pair[implied])
    return role
