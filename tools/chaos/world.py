"""The shared state of a run's clients: users, what they launch from, and the answers so far."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from tools.chaos.client import Answer, Client
from tools.chaos.ec2_user import Ec2, Ids
from tools.chaos.gate import Gate
from tools.chaos.plan import Operation
from tools.chaos.wizard import Wizard


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
        said = f"{self.answer.status or 'no answer'}"
        why = f" {self.answer.words}" if not self.answer.accepted else ""
        return f"{self.operation.number} {self.operation}: {said} in {self.seconds:.2f} s{why}"


@dataclass
class World:
    """The shared state of the clients: users, what they launch from, and the answers so far."""

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
    """The network that floating IPs are taken from."""
    routers: list[str] = field(default_factory=list)
    """Each project's way there."""
    by_ec2: list[Ec2] = field(default_factory=list)
    """The clients' users, by the EC2 API."""
    ec2_launch: dict[str, str] = field(default_factory=dict)
    """Image and subnet as RunInstances takes them."""
    types: dict[str, str] = field(default_factory=dict)
    """Names of the flavors."""
    ids: Ids = field(default_factory=Ids)
    outcomes: list[Outcome] = field(default_factory=list)
    servers: dict[int, list[str]] = field(default_factory=dict)
    """Launch → ids of its servers, as far as its client knows them."""
    begun: int = 0
    troubles: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    gate: Gate = field(default_factory=Gate)
    """Every operation passes it."""
    lost: list[tuple[float, float]] = field(default_factory=list)
    """Between which moments, in Unix time, the records of what was answered may be lost."""

    def may_be_lost(self, outcome: Outcome) -> bool:
        """Return whether the records of the result of a request may be lost."""
        return any(outcome.began < ended and outcome.began + outcome.seconds > began for began, ended in self.lost)

    def name(self, launch: int) -> str:
        """Return the name that all servers of a launch have."""
        return f"{self.prefix}-{launch:05d}"
