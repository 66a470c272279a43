"""``POST /servers/{id}/action``: one module for each family of actions (Compute API reference, "Servers - run an
action").
"""

from portal.api.compute.actions import (
    console_log,
    consoles,
    moves,
    power,
    rebuild,
    removed,
    rescue,
    resize,
    shelve,
    snapshots,
    state,
)
from portal.api.compute.actions.registry import Action

ACTIONS: dict[str, Action] = {
    **power.ACTIONS,
    **state.ACTIONS,
    **console_log.ACTIONS,
    **consoles.ACTIONS,
    **rebuild.ACTIONS,
    **rescue.ACTIONS,
    **resize.ACTIONS,
    **moves.ACTIONS,
    **snapshots.ACTIONS,
    **shelve.ACTIONS,
    **removed.ACTIONS,
}
"""Every action by the one key of its body."""
