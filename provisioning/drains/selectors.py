"""Drains for operators."""

import uuid
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.compute.plans.moves import Plan, plan_host
from provisioning.drains.models import Drain, DrainItem
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import is_alive
from provisioning.identity import policy

SHOW = "novella:drains:show"
DRAIN = "novella:drains:create"
MOST_LISTED = 100
_ORDER = ("failed", "moving", "waiting", "stays", "cancelled", "done")


@dataclass(frozen=True, slots=True)
class Progress:
    """Numbers of a drain's servers; ``seconds`` is the estimated rest for ``NOVELLA_DRAIN_MOVES`` moves at a time."""

    total: int
    done: int
    moving: int
    waiting: int
    failed: int
    stays: int
    seconds: float

    @property
    def percent(self) -> int:
        ended = self.total - self.waiting - self.moving
        return 100 * ended // self.total if self.total else 100


def drains_for(context: RequestContext) -> Sequence[Drain]:
    """Return the newest drains of all hosts. Raises ForbiddenError."""
    policy.enforce(context, SHOW)
    return list(Drain.objects.select_related("host").order_by("-created_at", "id")[:MOST_LISTED])


def host_named(context: RequestContext, name: str) -> Host:
    """Return a host. Raises ForbiddenError, NotFoundError."""
    policy.enforce(context, SHOW)
    host = Host.objects.filter(name=name).first()
    if host is None:
        raise NotFoundError(f"Compute host {name} could not be found.", field="host")
    return host


def plan_for(context: RequestContext, host: Host, ways: Collection[str]) -> Plan:
    """Return the plan of a drain of the host that would begin now, in these ways. Raises ForbiddenError."""
    policy.enforce(context, SHOW)
    return plan_host(host, ways, host_up=is_alive(host, timezone.now()))


def drain_for(context: RequestContext, drain_id: uuid.UUID | str) -> Drain:
    """Return a drain with its host. Raises ForbiddenError, NotFoundError."""
    policy.enforce(context, SHOW)
    drain = Drain.objects.select_related("host").filter(pk=read_id(drain_id) or NOBODY).first()
    if drain is None:
        raise NotFoundError("This drain was not found.")
    return drain


def latest_of(host: Host) -> Drain | None:
    """Return the host's newest drain."""
    return Drain.objects.select_related("host").filter(host=host).order_by("-created_at", "id").first()


def items_of(drain: Drain) -> list[DrainItem]:
    """Return the servers of a drain: those that need attention first, then in order of the plan."""
    rows = list(drain.items.order_by("position"))
    return sorted(rows, key=lambda item: (_ORDER.index(item.state), item.position))


def progress_of(drain: Drain, items: Sequence[DrainItem], parallel: int) -> Progress:
    """Return the numbers of a drain's servers."""
    counted = Counter(str(item.state) for item in items)
    left = sum(item.seconds for item in items if item.state in ("waiting", "moving"))
    return Progress(
        total=len(items),
        done=counted["done"],
        moving=counted["moving"],
        waiting=counted["waiting"],
        failed=counted["failed"],
        stays=counted["stays"],
        seconds=left / parallel if drain.finished_at is None else 0.0,
    )
