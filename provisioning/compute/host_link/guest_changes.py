"""Columns of a server that its guest can read; its host is notified when they change."""

from collections.abc import Callable, Collection

from provisioning.common.wired import Wired
from provisioning.compute.models import Instance

METADATA_OPTIONS = "metadata_options"
"""The name of the change of the server's metadata options, which are not a column of the server."""
READ_BY_GUESTS = frozenset({"name", "hostname", "metadata", "password", METADATA_OPTIONS})
"""Columns of a server that the metadata service shows or uses."""

NOTIFY = Wired[Callable[[Instance], None]]("The receivers of changes of guests")
"""Functions that are called with the changed server, in the transaction of the change."""


def changed(instance: Instance, columns: Collection[str]) -> None:
    """Report that columns of a server were written."""
    if not READ_BY_GUESTS.isdisjoint(columns):
        for notify in NOTIFY:
            notify(instance)
