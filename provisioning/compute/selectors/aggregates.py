"""Queries of aggregates, for operators."""

from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.compute.models import Aggregate
from provisioning.identity import policy

SEEING_AGGREGATES = ("os_compute_api:os-aggregates:index", "os_compute_api:os-aggregates:show")
"""Policy rules for reading aggregates; the API checks the rule of its operation."""


def aggregates_for(context: RequestContext) -> list[Aggregate]:
    """Return all aggregates with their hosts, oldest first, in two queries.  Raises ForbiddenError."""
    policy.enforce(context, SEEING_AGGREGATES[0])
    return list(Aggregate.objects.prefetch_related("hosts").order_by("id"))


def aggregate_for(context: RequestContext, aggregate_id: int) -> Aggregate:
    """Return one aggregate.  Raises ForbiddenError, NotFoundError."""
    policy.enforce(context, SEEING_AGGREGATES[1])
    aggregate = Aggregate.objects.filter(pk=aggregate_id).first() if 0 < aggregate_id <= MAX_INTEGER else None
    if aggregate is None:
        raise NotFoundError(f"Aggregate {aggregate_id} could not be found.")
    return aggregate
