"""Domains."""

from __future__ import annotations

from provisioning.identity.models import Domain


def ensure_domain(domain_id: str, name: str, *, description: str = "") -> Domain:
    """Return the domain of this id, made if absent."""
    return Domain.objects.get_or_create(id=domain_id, defaults={"name": name, "description": description})[0]
