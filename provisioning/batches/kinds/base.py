"""Parts of the declarations of kinds: owners, deletions, and names of copies."""

import uuid
from collections.abc import Callable, Collection, Sequence
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from provisioning.batches.kinds.declaration import Argument, BatchAction, Kind, Refusals, Task
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.common.values.ids import read_id

ENDING = "ending"
LONGEST_ENDING = 40


def read_ids(texts: Sequence[str]) -> list[uuid.UUID]:
    return [known for known in map(read_id, texts) if known]


def owners_of(record: Any) -> dict[str, object]:
    of_network = getattr(record, "network", None)
    owner = record.project_id if of_network is None else of_network.project_id
    return {"project_id": record.project_id, "network:project_id": owner, "network:tenant_id": owner}


def kind_of_project(
    name: str, singular: str, plural: str, visible: Callable[[RequestContext], QuerySet[Any]], *actions: BatchAction
) -> Kind:
    """Return a kind of records with an owner. ``visible`` returns the records that the caller sees."""
    return Kind(
        name,
        singular,
        plural,
        lambda context, ids: visible(context).filter(pk__in=read_ids(ids)),
        actions,
        owners=owners_of,
    )


def _check_ending(text: str) -> None:
    if not text.isprintable():
        raise InvalidInputError("The text has control characters.")


ending_argument = Argument(
    ENDING,
    "Added to each name",
    "Each copy is named after its original, with this text at the end.",
    _check_ending,
    LONGEST_ENDING,
    lambda: timezone.now().strftime("-%Y-%m-%d"),
    optional=True,
)


def copy_name(task: Task) -> str:
    """Return the name of a copy, at most 255 characters."""
    ending = str(task.arguments.get(ENDING, ""))
    return f"{(task.record.name or str(task.id))[: 255 - len(ending)]}{ending}"


def deletion(
    rule: str,
    consequence: str,
    run: Callable[[Task], object],
    label: str = "Delete",
    refusals: Refusals = lambda _context, _records: {},
) -> BatchAction:
    return BatchAction(
        label.lower(), label, "trash", rule, consequence, run, deletes=True, danger=True, refusals=refusals
    )


def each(reason: Callable[[Any], str]) -> Refusals:
    """Return the refusals of a check of one resource; ``reason`` is empty for a resource that allows the action."""
    return lambda _, records: {record.pk: found for record in records if (found := reason(record))}


def outside_status(legal: Collection[str]) -> Refusals:
    """Return the refusals of an action that is possible in some statuses only."""
    return each(lambda record: "" if record.status in legal else str(record.status).replace("-", " ").replace("_", " "))


def among(reason: str, find: Callable[[Collection[Any]], Collection[Any]]) -> Refusals:
    """Return the refusals of the resources whose ids ``find`` selects with one query."""
    return lambda _, records: dict.fromkeys(find([record.pk for record in records]), reason)
