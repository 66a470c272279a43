"""Times in the queries and responses of the Compute API."""

from datetime import UTC, datetime, timedelta

from django.utils.dateparse import parse_datetime

from provisioning.common.errors import InvalidInputError

SECOND = timedelta(seconds=1) - timedelta.resolution


def timestamp(moment: datetime | None) -> str | None:
    """Format a time as ``2026-01-31T12:00:00Z``; None for None."""
    return None if moment is None else f"{_utc(moment).isoformat()[:19]}Z"


def timestamp_micro(moment: datetime | None) -> str | None:
    """Format a time as ``2026-01-31T12:00:00.000000``, without a time zone, as in actions and usage; None for None."""
    return None if moment is None else _utc(moment).isoformat(timespec="microseconds")[:26]


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo is UTC else moment.astimezone(UTC)


def read_time(value: str, name: str) -> datetime:
    """Return a time of the query, in UTC if it has no time zone. Raises InvalidInputError if it is malformed."""
    try:
        found = parse_datetime(value.replace(" ", "+") if "T" in value else value)
        found = found if found is None or found.tzinfo else found.replace(tzinfo=UTC)
        if found is not None:
            return found.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise InvalidInputError(
        f"Invalid input for query parameters {name}. Value: {value[:64]}. {value[:64]!r} is not a 'date-time'",
        field=name,
    )


def read_end(value: str, name: str) -> datetime:
    """Return an upper bound in the query. A time in whole seconds includes this second, because responses show times
    without fractions.
    """
    found = read_time(value, name)
    return found if found.microsecond else found + SECOND
