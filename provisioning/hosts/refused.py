"""Agents that the portal refused: a wrong join token or credential, or a version that it does not support.

Every client can connect and be refused, so the number of rows and of writes is limited.
"""

from datetime import timedelta

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.common.values.text import one_line
from provisioning.hosts.models import RefusedAgent
from provisioning.identity import policy

SHOWN_FOR = timedelta(days=1)
SELDOM = timedelta(seconds=10)
"""Minimum time between two writes about one address."""
MOST_OF_ADDRESS = 10
MOST = 200


@when_broken_off
def record(host_name: str, address: str, reason: str) -> None:
    """Store that an agent with this name, at this address, was refused; ignored beyond the limits."""
    now = timezone.now()
    name, address = one_line(host_name, 255), one_line(address, 45)
    of_address = RefusedAgent.objects.filter(address=address)
    if of_address.filter(refused_at__gt=now - SELDOM).exists():
        return
    known = of_address.filter(host_name=name)
    if not known.exists() and (of_address.count() >= MOST_OF_ADDRESS or RefusedAgent.objects.count() >= MOST):
        return
    values = {"reason": one_line(reason, 255), "refused_at": now}
    with transaction.atomic():
        if not known.filter(attempts__lt=MAX_INTEGER).update(attempts=F("attempts") + 1, **values):
            RefusedAgent.objects.get_or_create(host_name=name, address=address, defaults=values)


def settled(host_name: str) -> None:
    """Delete the refusals of a host that was admitted."""
    refused = RefusedAgent.objects.filter(host_name=host_name)
    if refused.exists():
        refused.delete()


def lately() -> QuerySet[RefusedAgent]:
    """Return the refusals that operators see, newest first."""
    return RefusedAgent.objects.filter(refused_at__gt=timezone.now() - SHOWN_FOR).order_by("-refused_at", "-id")


def refused_agents(context: RequestContext, rule: str) -> list[RefusedAgent]:
    """Return ``lately`` as a list. Raises ForbiddenError unless the rule allows it."""
    policy.enforce(context, rule)
    return list(lately())


def prune() -> None:
    RefusedAgent.objects.filter(refused_at__lte=timezone.now() - SHOWN_FOR).delete()
