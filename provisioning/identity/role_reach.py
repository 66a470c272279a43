"""Which roles count beyond the project or domain on which they are given."""

import functools
import operator
import uuid

from django.db.models import Q

from provisioning.identity.models import ImpliedRole, Role

ADMIN = "admin"
BEYOND_DOMAINS = (ADMIN, "service")
"""Given on whatever project, ``admin`` operates the cloud, and ``service`` tells all servers what happened to them."""


def roles_bringing(*names: str) -> set[uuid.UUID]:
    """Return the ids of the cloud's roles of these names, in whatever case as rules take them so, and of all that imply
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
    """Return the ids of the roles that only operators give: whoever has one has power over all projects."""
    return roles_bringing(*BEYOND_DOMAINS)
