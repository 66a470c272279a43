"""Subjects of commands: a resource of a kind (a server), in one generation."""

from collections.abc import Mapping
from typing import NamedTuple

from compute_agent.contract.messages import Command, Ownership


class Subject(NamedTuple):
    """A resource that commands are about; its kind determines the handler."""

    kind: str
    id: str

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


def subject_of(command: Command) -> Subject:
    return Subject(command.subject_kind, command.subject_id)


def generation_of(command: Command) -> int:
    """Return the fencing number of the command. A command with a greater number for the same subject supersedes it."""
    return command.generation


def owned(ownership: Ownership) -> Mapping[Subject, int]:
    """Return the subjects that the host owns according to the database, with the newest generation of each."""
    return {Subject(each.subject_kind, each.subject_id): each.generation for each in ownership.subjects}
