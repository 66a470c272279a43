"""Queries of the usage audits."""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.compute.models import UsageAudit
from provisioning.compute.records.periods import AuditPeriod, completed_before
from provisioning.hosts.models import Host
from provisioning.identity import policy


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Audits of a period: the names of all hosts, and the rows by host."""

    period: AuditPeriod
    hosts: list[str]
    rows: list[UsageAudit]

    def names(self, state: str) -> list[str]:
        """Return the hosts whose audit has this state."""
        return [row.host for row in self.rows if row.state == state]

    @property
    def not_run(self) -> list[str]:
        """The hosts without a row."""
        seen = {row.host for row in self.rows}
        return [host for host in self.hosts if host not in seen]


def audit_for(context: RequestContext, before: datetime, rule: str) -> AuditReport:
    """Return the audits of the last period that ended before a moment. Raises ForbiddenError, InvalidInputError."""
    policy.enforce(context, rule)
    try:
        period = completed_before(settings.INSTANCE_USAGE_AUDIT_PERIOD, before)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(f"Invalid timestamp for date {before:%Y-%m-%d %H:%M:%S}", field="before") from error
    rows = UsageAudit.objects.filter(period_beginning=period.beginning, period_ending=period.ending)
    return AuditReport(
        period,
        list(Host.objects.order_by("name").values_list("name", flat=True)),
        list(rows.order_by("host")),
    )
