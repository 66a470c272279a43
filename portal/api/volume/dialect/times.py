"""Times in the queries and answers of the Block Storage API."""

from datetime import UTC, datetime

from django.utils.dateparse import parse_datetime

from provisioning.common.errors import InvalidInputError


def timestamp(moment: datetime | None) -> str | None:
    """``2026-01-31T12:00:00.000000``, Cinder's format: UTC, without a time zone."""
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="microseconds")[:26]


def read_time(value: str, name: str) -> datetime:
    """Return a time of the query, in UTC if it has no time zone. Raises InvalidInputError if it is malformed."""
    try:
        found = parse_datetime(value.replace(" ", "+") if "T" in value else value)
        if found is not None:
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise InvalidInputError(f"filters: {name} is invalid: {value[:64]!r} is not an ISO 8601 time.", field=name)
