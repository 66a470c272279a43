"""How a host carries out the orders beside building and destroying: one module for each family."""

from importlib import import_module

from compute_agent.manager.orders.means import Means, OrderCancelledError
from compute_agent.manager.orders.registry import Work, carries_out, work_for

for _family in ("power", "rebuild", "rescue", "snapshot", "resize", "interfaces"):
    import_module(f"{__name__}.{_family}")

__all__ = ["Means", "OrderCancelledError", "Work", "carries_out", "work_for"]
