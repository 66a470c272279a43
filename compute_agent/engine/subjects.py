"""What a command is about: one thing of a kind (a server), in one generation."""

from collections.abc import Mapping
from typing import NamedTuple

from compute_agent.contract.messages import Command, Ownership


class Subject(NamedTuple):
    """One thing that commands are about; its kind says who handles them."""

    kind: str
    id: str

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


def subject_of(command: Command) -> Subject:
    """Return what the command is about."""
    return Subject(command.subject_kind, command.subject_id)


def generation_of(command: Command) -> int:
    """Return the fencing number of the command: a greater one for the same subject outdates it."""
    return command.generation


def owned(ownership: Ownership) -> Mapping[Subject, int]:
    """Return what the host holds by the records, with the newest generation of each."""
    return {Subject(each.subject_kind, each.subject_id): each.generation for each in ownership.subjects}
