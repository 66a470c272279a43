"""Accounting periods: hours, days, months or years, in the notation of Nova's ``instance_usage_audit_period``."""

from dataclasses import dataclass
from datetime import datetime, timedelta


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
