"""Roles that apply beyond the project or domain on which they are assigned."""

import functools
import operator
import uuid

from django.db.models import Q

from provisioning.identity.models import ImpliedRole, Role

ADMIN = "admin"
BEYOND_DOMAINS = (ADMIN, "service")
"""On any project, ``admin`` administers the cloud, and ``service`` sends events to all servers."""


def roles_bringing(*names: str) -> set[uuid.UUID]:
    """Return the ids of the global roles with these names (case-insensitive, as in rules), and of all roles that imply
    one of them.
    """
    named = functools.reduce(operator.or_, (Q(name__iexact=name) for name in names))
    found = set(Role.objects.filter(named, domain=None).values_list("id", flat=True))
    new = found
    while new:
        new = set(ImpliedRole.objects.filter(implied__in=new).values_list("prior", flat=True)) - found
        found |= new
    return found


def roles_beyond_domains() -> set[uuid.UUID]:
    """Return the ids of the roles that only operators may assign, because they apply to all projects."""
    return roles_bringing(*BEYOND_DOMAINS)
