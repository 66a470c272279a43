"""Upper limits of the number of definitions, so that users with write access cannot fill the database."""

from django.db.models import QuerySet

from provisioning.common.errors import TooLargeError

MOST_NAMESPACES = 1000
"""Namespaces of one owner."""
MOST = 1000
"""Properties of one namespace; also its objects, its tags and its associations."""
MOST_TYPES = 1000
"""Resource types."""


def check_room(rows: QuerySet, more: int, most: int, what: str) -> None:  # type: ignore[type-arg]
    """Raise TooLargeError if ``rows`` and ``more`` new rows exceed ``most``."""
    if rows.count() + more > most:
        raise TooLargeError(f"There are at most {most} {what}.")
