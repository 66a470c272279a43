"""Queries of a server's history: actions, their events, the timeline and progress of its launch, and the usual
durations of its steps."""

import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models.functions import Coalesce

from compute_agent.contract import steps
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.lists.listing import Listing, Part, Sort
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.compute.models import Instance, InstanceAction, InstanceActionEvent, SchedulingDecision
from provisioning.compute.selectors.block_devices import have_volumes
from provisioning.compute.selectors.instances import ALL_PROJECTS, instance_for
from provisioning.compute.states import VmState
from provisioning.identity import policy

TUNNEL = "open_tunnel"
"""Name of the action that records a tunnel to a server's port, and of the only step of that action."""
ACCEPTED, ON_HOST = "Request accepted", "Carried out on the host"
LABELS: dict[str, str] = {
    "api_create": ACCEPTED,
    "schedule": "Choose a host",
    "claim": "Claim resources on the host",
    "allocate_network": "Allocate addresses",
    "block_device_mapping": "Connect volumes",
    "hand_off": "Send to the host",
    steps.PLUG_NETWORK: "Plug the network",
    steps.FETCH_IMAGE: "Fetch the image",
    steps.CREATE_DISK: "Create the disk",
    steps.CREATE_SEED: "Write the configuration drive",
    steps.DEFINE_DOMAIN: "Define the guest",
    steps.APPLY_FIREWALL: "Apply the firewall",
    steps.START_GUEST: "Start the guest",
    steps.WAIT_FOR_BOOT: "Wait until it runs",
}
"""Steps of a launch in order of execution, with their labels on pages."""
MAPPING = "block_device_mapping"
"""This step exists only for servers with volumes."""
ACTIONS = Listing[InstanceAction](
    order=(Sort("started_at"), Sort("id")),
    filters={"changes_since": "changed__gte", "changes_before": "changed__lte"},
    marker="request_id",
    no_marker="marker [{marker}] not found",
)

FEWEST = 5
"""Launches that are needed for a comparison."""
READ = 100
"""Newest servers with the same image that are read."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a launch as a page shows it.

    ``started`` None: not begun; ``finished`` None: running; ``seconds``: duration.
    """

    name: str
    label: str
    attempt: int
    started: datetime | None = None
    finished: datetime | None = None
    seconds: float | None = None
    result: str = ""
    """``Success``, ``Error``, or empty before the end."""
    host: str = ""
    """For operators only."""
    detail: Mapping[str, str] = field(default_factory=dict)
    message: str = ""

    @property
    def state(self) -> str:
        """``waiting``, ``running``, ``done`` or ``failed``."""
        if self.started is None:
            return "waiting"
        if self.finished is None:
            return "running"
        return "failed" if self.result == "Error" else "done"


def tunnels_of(actions: Iterable[InstanceAction]) -> dict[int, Mapping[str, str]]:
    """Return action id → target and traffic (``address``, ``port``, ``connections``, bytes) of the tunnels among the
    actions. Sends no query if there are none.
    """
    ids = [action.pk for action in actions if action.action == TUNNEL]
    rows = InstanceActionEvent.objects.filter(action__in=ids, name=TUNNEL).order_by("id") if ids else ()
    return {row.action_id: row.detail for row in rows}


def running_steps_of(actions: Iterable[InstanceAction]) -> dict[int, Step]:
    """Return action id → newest running step, without hosts, of the unfinished actions. Sends no query if there are
    none.
    """
    ids = [action.pk for action in actions if action.finished_at is None]
    rows = InstanceActionEvent.objects.filter(action__in=ids, finished_at=None).order_by("id") if ids else ()
    return {row.action_id: _step(row, with_host=False) for row in rows}


def steps_of(context: RequestContext, actions: Iterable[InstanceAction]) -> dict[int, list[Step]]:
    """Return action id → its steps in order, with hosts only for operators; one query."""
    with_host = policy.allows(context, "os_compute_api:os-instance-actions:events:details")
    rows = InstanceActionEvent.objects.filter(action__in=[action.pk for action in actions])
    result: dict[int, list[Step]] = {}
    for row in rows.order_by("attempt", "started_at", "id"):
        result.setdefault(row.action_id, []).append(_step(row, with_host=with_host))
    return result


def actions_for(
    context: RequestContext,
    instance_id: str | uuid.UUID,
    *,
    limit: int | None = None,
    marker: str | None = None,
    changes_since: datetime | None = None,
    changes_before: datetime | None = None,
    deleted: bool = True,
) -> list[InstanceAction]:
    """Return a server's actions, newest first; also of a deleted server, unless ``deleted`` is False.

    ``marker`` is a request id. ``changes_…`` compare with the last change of an action. Raises NotFoundError, and
    InvalidInputError for an unknown marker.
    """
    instance = _known(context, instance_id, deleted=deleted)
    rows = InstanceAction.objects.filter(instance=instance)
    times = (("changes_since", changes_since), ("changes_before", changes_before))
    part = Part([(name, time) for name, time in times if time is not None], limit=limit, marker=marker)
    changed = rows.annotate(changed=Coalesce("finished_at", "started_at"))
    return ACTIONS.page(changed, part, among=rows.order_by("started_at", "id"))


def action_for(
    context: RequestContext, instance_id: str | uuid.UUID, request_id: str, *, deleted: bool = True
) -> tuple[InstanceAction, list[InstanceActionEvent]]:
    """Return an action with its events, newest first; ``deleted`` as in ``actions_for``. Raises NotFoundError."""
    instance = _known(context, instance_id, deleted=deleted)
    action = InstanceAction.objects.filter(instance=instance, request_id=request_id).order_by("-id").first()
    if action is None:
        raise NotFoundError(f"Action for request_id {request_id[:64]} on instance {instance_id} not found")
    action.instance = instance
    return action, list(action.events.order_by("-started_at", "-id"))


def _known(context: RequestContext, instance_id: str | uuid.UUID, *, deleted: bool) -> Instance:
    """Return a server of the caller's project, or any server for an operator; ``deleted`` includes deleted ones."""
    rows = Instance.objects.filter(id=read_id(instance_id) or NOBODY)
    if not policy.allows(context, ALL_PROJECTS):
        rows = rows.filter(project_id=context.project_id or NOBODY)
    instance = (rows if deleted else rows.exclude(vm_state=VmState.DELETED)).first()
    if instance is None:
        raise NotFoundError(f"Instance {str(instance_id)[:64]} could not be found.")
    return instance


def timeline_for(context: RequestContext, instance_id: str | uuid.UUID) -> list[Step]:
    """Return the steps of the server's launch in order, of all attempts; during a build also the pending steps."""
    instance = instance_for(context, instance_id, deleted=True)
    rows = InstanceActionEvent.objects.filter(action__instance=instance, action__action="create")
    order = {name: index for index, name in enumerate(LABELS)}
    events = sorted(rows, key=lambda row: (row.attempt, order.get(row.name, len(order)), row.started_at))
    done = [
        _step(row, with_host=policy.allows(context, "os_compute_api:os-instance-actions:events:details"))
        for row in events
    ]
    return done + _expected_steps(instance, done)


def _step(row: InstanceActionEvent, *, with_host: bool) -> Step:
    return Step(
        name=row.name,
        label=_label(row.name),
        attempt=row.attempt,
        started=row.started_at,
        finished=row.finished_at,
        seconds=(row.finished_at - row.started_at).total_seconds() if row.finished_at else None,
        result=row.result,
        host=row.host if with_host else "",
        detail=row.detail,
        message=row.message,
    )


def _label(name: str) -> str:
    """Return the label of a step; each action has a step of the API and one of its host."""
    if name in LABELS:
        return LABELS[name]
    kind = name.partition("_")[0]
    return {"api": ACCEPTED, "compute": ON_HOST}.get(kind) or name.replace("_", " ").capitalize()


def _expected_steps(instance: Instance, done: list[Step]) -> list[Step]:
    if instance.vm_state != VmState.BUILDING or instance.task_state == "deleting":
        return []
    seen = {step.name for step in done if step.attempt == instance.attempt} | {"api_create"}
    if not have_volumes([instance.id]):
        seen.add(MAPPING)
    return [
        Step(name=name, label=label, attempt=instance.attempt) for name, label in LABELS.items() if name not in seen
    ]


def decision_for(context: RequestContext, instance_id: str | uuid.UUID) -> SchedulingDecision | None:
    """Return the latest scheduling decision of a server; names of hosts are removed unless the caller may see them."""
    decision = (
        SchedulingDecision.objects.filter(instance=instance_for(context, instance_id, deleted=True))
        .order_by("-attempt")
        .first()
    )
    if decision is not None and not policy.allows(context, "os_compute_api:os-extended-server-attributes"):
        decision.host_name, decision.weights, decision.losses = "", [], {}
    return decision


@dataclass(frozen=True, slots=True)
class Range:
    """The median and the 95th percentile of durations, in seconds."""

    p50: float
    p95: float


@dataclass(frozen=True, slots=True)
class Usual:
    """Durations of ``launches`` other launches: of all, and of each step by its name."""

    launches: int
    whole: Range
    steps: Mapping[str, Range]


def usual_of(instance: Instance) -> Usual | None:
    """Return the usual durations for the server's image and flavor; None without an image or with fewer than FEWEST
    launches.

    Only launches at the first attempt count. Three queries.
    """
    if instance.image_id is None:
        return None
    same = Instance.objects.filter(project_id=instance.project_id, image_id=instance.image_id).exclude(id=instance.id)
    rows = same.order_by("-created_at").values_list("id", "flavor")[:READ]
    ids = [key for key, flavor in rows if flavor["flavorid"] == instance.flavor["flavorid"]]
    if len(ids) < FEWEST:
        return None
    done = {"action": "create", "finished_at__isnull": False, "message__isnull": True}
    launches = InstanceAction.objects.filter(instance_id__in=ids, **done)
    took = {key: _seconds(begin, end) for key, begin, end in launches.values_list("id", "started_at", "finished_at")}
    events = InstanceActionEvent.objects.filter(action_id__in=took, finished_at__isnull=False)
    durations = list(events.values_list("action_id", "attempt", "name", "started_at", "finished_at"))
    retried = {key for key, attempt, *_ in durations if attempt > 1}
    steps: dict[str, list[float]] = {}
    for key, _, name, begin, end in durations:
        if key not in retried:
            steps.setdefault(name, []).append(_seconds(begin, end))
    whole = [seconds for key, seconds in took.items() if key not in retried]
    if len(whole) < FEWEST:
        return None
    ranges = {name: _range(seconds) for name, seconds in steps.items() if len(seconds) >= FEWEST}
    return Usual(len(whole), _range(whole), ranges)


def _seconds(begin: datetime, end: datetime | None) -> float:
    return (end - begin).total_seconds() if end else 0


def _range(seconds: Sequence[float]) -> Range:
    """Return both percentiles by the nearest rank."""
    ordered = sorted(seconds)
    return Range(*(ordered[math.ceil(len(ordered) * part) - 1] for part in (0.5, 0.95)))
