"""How many definitions there may be: whoever a policy lets write them cannot fill the database."""

from django.db.models import QuerySet

from provisioning.common.errors import TooLargeError

MOST_NAMESPACES = 1000
"""Namespaces of one owner."""
MOST = 1000
"""Properties, objects, tags and associations of one namespace, of each."""
MOST_TYPES = 1000
"""Kinds of things that namespaces are meant for."""


def check_room(rows: QuerySet, more: int, most: int, what: str) -> None:  # type: ignore[type-arg]
    """Raise TooLargeError when ``more`` rows do not fit beside these."""
    if rows.count() + more > most:
        raise TooLargeError(f"There are at most {most} {what}.")
