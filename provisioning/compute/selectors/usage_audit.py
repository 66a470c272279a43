"""Usage audits: their queries, and their periods in the notation of Nova's ``instance_usage_audit_period``."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.compute.models import UsageAudit
from provisioning.hosts.models import Host
from provisioning.identity import policy


@dataclass(frozen=True, slots=True)
class AuditPeriod:
    """An ended period, in UTC."""

    beginning: datetime
    ending: datetime


def completed_before(unit: str, moment: datetime) -> AuditPeriod:
    """Return the last period that ended before a moment.

    ``unit`` is ``hour``, ``day``, ``month`` or ``year``; ``day@18`` begins at 18:00, ``hour@30`` at half past,
    ``month@15`` on the 15th, ``year@3`` in March. Raises ValueError or OverflowError for dates before year 1.
    """
    name, _, offset = unit.partition("@")
    begin = int(offset or 0)
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if name == "hour":
        return _even(moment.replace(minute=begin, second=0, microsecond=0), moment, timedelta(hours=1))
    if name == "day":
        return _even(midnight.replace(hour=begin), moment, timedelta(days=1))
    if name == "month":
        ending = midnight.replace(day=begin or 1)
        if ending >= moment:
            ending = _month_before(ending)
        return AuditPeriod(_month_before(ending), ending)
    ending = midnight.replace(month=begin or 1, day=1)
    if ending >= moment:
        ending = ending.replace(year=ending.year - 1)
    return AuditPeriod(ending.replace(year=ending.year - 1), ending)


def _even(ending: datetime, moment: datetime, length: timedelta) -> AuditPeriod:
    if ending >= moment:
        ending -= length
    return AuditPeriod(ending - length, ending)


def _month_before(day: datetime) -> datetime:
    if day.month == 1:
        return day.replace(year=day.year - 1, month=12)
    return day.replace(month=day.month - 1)


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
