"""Progress of the launches of several servers, for lists, with one query."""

import uuid
from collections.abc import Iterable

from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared
from provisioning.compute.models import Instance, InstanceActionEvent
from provisioning.compute.selectors.history import LABELS, MAPPING, Step
from provisioning.compute.states import VmState

SHOWN = tuple(name for name in LABELS if name != "api_create")
"""Steps after the acceptance of the request, which every listed server has passed."""


def progress_of(instances: Iterable[Instance]) -> dict[uuid.UUID, list[Step]]:
    """Return the steps of the current attempt of each server that is being built, including pending ones. The names of
    hosts are omitted.
    """
    building = {item.id: item for item in instances if item.vm_state == VmState.BUILDING}
    if not building:
        return {}
    known: dict[uuid.UUID, dict[str, InstanceActionEvent]] = {key: {} for key in building}
    for row in _OF_LAUNCHES(ids=building):
        if row.attempt == building[row.action.instance_id].attempt:
            known[row.action.instance_id][row.name] = row
    return {
        key: [
            _step(name, events.get(name), building[key].attempt)
            for name in SHOWN
            if name != MAPPING or name in events  # only for servers with volumes
        ]
        for key, events in known.items()
    }


_OF_LAUNCHES = Prepared(
    lambda ids: InstanceActionEvent.objects.filter(
        Among("action__instance_id", ids), action__action="create"
    ).select_related("action"),
    ids=Ids(),
)


def _step(name: str, row: InstanceActionEvent | None, attempt: int) -> Step:
    if row is None:
        return Step(name=name, label=LABELS[name], attempt=attempt)
    return Step(
        name=name,
        label=LABELS[name],
        attempt=attempt,
        started=row.started_at,
        finished=row.finished_at,
        seconds=(row.finished_at - row.started_at).total_seconds() if row.finished_at else None,
        result=row.result,
        message=row.message,
    )
