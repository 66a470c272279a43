"""Parts of the declarations of kinds: owners, deletions, and names of copies."""

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from provisioning.batches.kinds.declaration import Argument, BatchAction, Kind, Task
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


def deletion(rule: str, consequence: str, run: Callable[[Task], object], label: str = "Delete") -> BatchAction:
    return BatchAction(label.lower(), label, "trash", rule, consequence, run, deletes=True, danger=True)
