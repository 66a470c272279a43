"""What follows when an order to a host ends, well or badly: one module for each family of orders."""

from importlib import import_module

from provisioning.compute.actions.ends.outcome import SILENT, Outcome, silent_since
from provisioning.compute.actions.ends.registry import end_of, ended

for _family in ("ordinary", "rebuild", "rescue", "resize", "snapshots", "interfaces"):
    import_module(f"{__name__}.{_family}")

__all__ = ["SILENT", "Outcome", "end_of", "ended", "silent_since"]
