"""The shared state of a run's clients: users, the image and network for launches, and the answers so far."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from tools.chaos.clients.client import Answer, Client
from tools.chaos.clients.ec2_user import Ec2, Ids
from tools.chaos.clients.gate import Gate
from tools.chaos.clients.wizard import Wizard
from tools.chaos.plan import Operation


@dataclass(frozen=True)
class Outcome:
    """A request and its answer."""

    operation: Operation
    began: float
    """Unix time."""
    seconds: float
    answer: Answer
    server: str = ""

    def __str__(self) -> str:
        text = f"{self.answer.status or 'no answer'}"
        why = f" {self.answer.words}" if not self.answer.accepted else ""
        return f"{self.operation.number} {self.operation}: {text} in {self.seconds:.2f} s{why}"


@dataclass
class World:
    """The shared state of the clients: users, the image and network for launches, and the answers so far."""

    clients: list[Client]
    operator: Client
    wizards: list[Wizard]
    image: str
    network: str
    groups: dict[tuple[int, str], str]
    """(project, policy) → id of a server group."""
    prefix: str
    note: Callable[[str], None]
    external: str = ""
    """The id of the external network, from which floating IPs are allocated."""
    routers: list[str] = field(default_factory=list)
    """The id of each project's router to the external network."""
    by_ec2: list[Ec2] = field(default_factory=list)
    """The clients' users, as users of the EC2 API."""
    ec2_launch: dict[str, str] = field(default_factory=dict)
    """The arguments of RunInstances that specify image and subnet."""
    types: dict[str, str] = field(default_factory=dict)
    """Short name of a flavor in the plan → its name in the cloud."""
    ids: Ids = field(default_factory=Ids)
    outcomes: list[Outcome] = field(default_factory=list)
    servers: dict[int, list[str]] = field(default_factory=dict)
    """Number of a launch → ids of its servers, as far as the client knows them."""
    settles_within: float = 4.0
    """Seconds for which a client waits until a server has no running task."""
    off: set[str] = field(default_factory=set)
    """Names of the hosts that are powered off."""
    begun: int = 0
    troubles: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    gate: Gate = field(default_factory=Gate)
    """Clients enter the gate before each operation, and leave it afterwards."""
    lost: list[tuple[float, float]] = field(default_factory=list)
    """Intervals in Unix time; records of requests that were answered in them may be lost."""

    def may_be_lost(self, outcome: Outcome) -> bool:
        """Return whether a loss of records may include the result of the request."""
        return any(outcome.began < ended and outcome.began + outcome.seconds > began for began, ended in self.lost)

    def name(self, launch: int) -> str:
        """Return the common prefix of the names of a launch's servers."""
        return f"{self.prefix}-{launch:05d}"
