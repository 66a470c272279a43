"""How pages and drains begin an action: buttons, and the ways of a drain."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provisioning.common.errors import NovellaError
from provisioning.compute.models import Instance
from provisioning.scheduler import RequestSpec

Obstacles = Mapping[uuid.UUID, str]
"""Server → why this way is not possible, in a sentence; servers without an obstacle are omitted."""

Needs = Callable[[RequestSpec, Instance], RequestSpec]
Unfit = Callable[[Instance], Mapping[str, str]]
"""Return the names of the hosts that cannot receive a server, with the reasons."""


def _nothing_more(_: Sequence[Instance]) -> Needs:
    return lambda spec, _: spec


def _all_fit() -> Unfit:
    return lambda _: {}


@dataclass(frozen=True, slots=True)
class DrainWay:
    """How an action frees a server's host.

    ``obstacles`` and ``needs`` read the data of all servers of a plan together. ``request`` returns the action's
    request for a target's name; empty: the scheduler chooses.
    """

    name: str
    """``live``, ``cold``, ``evacuate`` or ``stop``."""
    position: int
    """Sort key among the ways, the most careful one first."""
    label: str
    consequence: str
    """The effect for a user, one sentence."""
    host_up: bool
    """Whether the server's host must be up; False: it must be down."""
    obstacles: Callable[[Sequence[Instance]], Obstacles]
    request: Callable[[str], Any]
    estimates: Callable[[], Callable[[Instance], float]]
    """Return the function that estimates the seconds of each server of a plan; it reads measurements once."""
    moves: bool = True
    """Whether the server gets another host. False: it is stopped and stays on the drained host."""
    needs: Callable[[Sequence[Instance]], Needs] = _nothing_more
    """Return the function that adds the requirements that servers of a plan have on a target only in this way."""
    unfit: Callable[[], Unfit] = _all_fit
    """Return the function for the hosts that cannot receive servers of a plan in this way; it reads the hosts once."""
    new_disks: Callable[[Instance], bool] = lambda _: False
    """Whether disks of the server are created again from its image."""


def each(check: Callable[[Instance], object]) -> Callable[[Sequence[Instance]], Obstacles]:
    """Return the function ``obstacles`` that calls ``check`` for each server. A text that it returns, or a NovellaError
    that it raises, is the obstacle.
    """

    def obstacles(servers: Sequence[Instance]) -> Obstacles:
        return {server.id: reason for server in servers if (reason := _reason(check, server))}

    return obstacles


def _reason(check: Callable[[Instance], object], server: Instance) -> str:
    try:
        return str(check(server) or "")
    except NovellaError as error:
        return error.message


@dataclass(frozen=True, slots=True)
class Button:
    """An action's button on pages: its label, its icon, the question before the action and the message after it."""

    position: int
    """Sort key among the buttons, lowest first."""
    name: str
    """Name of the action in the URL of its confirmation page."""
    label: str
    icon: str
    question: str
    consequence: str
    message: str
    """Shown after the action has begun; ``{name}`` is replaced by the server's name."""
    danger: bool = False
