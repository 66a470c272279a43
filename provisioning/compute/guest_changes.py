"""What a guest reads of itself and its owner may change while it runs: its host is told by whoever registers here."""

from collections.abc import Callable, Collection

from provisioning.compute.models import Instance

METADATA_OPTIONS = "metadata_options"
"""Not a column: how the metadata service answers a server."""
READ_BY_GUESTS = frozenset({"name", "hostname", "metadata", "password", METADATA_OPTIONS})
"""Columns of a server that its metadata service shows, or follows."""

_tellers: list[Callable[[Instance], None]] = []


def register(tell: Callable[[Instance], None]) -> None:
    """Let ``tell`` be called, in the transaction of the change, with each server that has changed so."""
    _tellers.append(tell)


def changed(instance: Instance, columns: Collection[str]) -> None:
    """Say that columns of a server were written."""
    if not READ_BY_GUESTS.isdisjoint(columns):
        for tell in _tellers:
            tell(instance)
