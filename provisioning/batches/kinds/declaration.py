"""Declarations of the actions that can be carried out on many resources of one kind."""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provisioning.common.context import RequestContext

Arguments = Mapping[str, Any]
Refusals = Callable[[RequestContext, Sequence[Any]], Mapping[Any, str]]


@dataclass(frozen=True, slots=True)
class Argument:
    """A text that the user enters, or one of ``choices`` (value and label), for the whole batch."""

    name: str
    label: str
    help: str
    check: Callable[[str], object]
    """Raises InvalidInputError for an invalid text."""
    longest: int
    suggested: Callable[[], str] = lambda: ""
    optional: bool = False
    """Whether the text can be empty."""
    choices: Callable[[RequestContext], Sequence[tuple[str, str]]] | None = None
    """Returns the choices of a caller; ``check`` accepts the choices of all callers."""


@dataclass(frozen=True, slots=True)
class Task:
    """One item that is carried out: the resource and the arguments of its batch."""

    context: RequestContext
    record: Any
    arguments: Arguments

    @property
    def id(self) -> uuid.UUID:
        result: uuid.UUID = self.record.pk
        return result


@dataclass(frozen=True, slots=True)
class BatchAction:
    """An action. ``run`` calls the service of the single action, which writes only to the database; it runs in the
    transaction that ends the item, so it is carried out exactly once.
    """

    name: str
    label: str
    icon: str
    rule: str
    consequence: str
    run: Callable[[Task], object]
    deletes: bool = False
    danger: bool = False
    argument: Argument | None = None
    refusals: Refusals = lambda _context, _records: {}
    """Returns the resources that do not allow the action now, for the confirmation: primary key → the reason as a word
    or clause about the resource, such as ``stopped``.
    """
    undone_by: str = ""
    """The action that reverses it exactly for each resource that it changed. Such an action needs no confirmation."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of resources.

    ``find`` returns the resources with these ids that the caller may see, in any order.
    """

    name: str
    singular: str
    plural: str
    find: Callable[[RequestContext, Sequence[str]], Iterable[Any]]
    actions: Sequence[BatchAction]
    name_of: Callable[[Any], str] = lambda record: str(record.name or record.pk)
    id_of: Callable[[Any], str] = lambda record: str(record.pk)
    owners: Callable[[Any], dict[str, object]] = lambda _: {}
    """The policy target of a resource; empty: the caller's project."""
    is_kept: Callable[[Any], bool] = lambda _: False
    """Whether the resource was deleted and can be restored. It is deleted permanently only if the user confirmed that.
    """

    def action(self, name: str) -> BatchAction | None:
        return next((each for each in self.actions if each.name == name), None)

    def counted(self, number: int) -> str:
        """Return a number of these resources in words: ``1 instance``."""
        return f"{number:,} {self.singular if number == 1 else self.plural}"
