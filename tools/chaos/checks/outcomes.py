"""Compares the answer to each request with its result."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from provisioning.compute.models import Instance, InstanceAction
from provisioning.doctor.finding import Finding
from provisioning.ec2.models import Ec2Id, Ec2Tag
from provisioning.network.models import Port
from provisioning.volumes.models import Volume
from tools.chaos.calls import CALLS
from tools.chaos.checks.wrongs import wrong
from tools.chaos.clients import ec2
from tools.chaos.clients.client import Answer
from tools.chaos.clients.world import Outcome, World
from tools.chaos.plan import Operation


def check(world: World) -> list[Finding]:
    """Return errors for requests without a result, with several results, or with the answer 500."""
    kept = [each for each in world.outcomes if not world.may_be_lost(each)]
    broken = [each for each in world.outcomes if each.answer.status == 500]
    errors = [wrong(each.server, f"{each}: an internal error.") for each in broken]
    broken_by_ec2 = [words for face in world.by_ec2 for words in face.broken]
    answered = (*broken_by_ec2, *world.ids.wrongs, *ec2.same_answers(kept))
    by_ec2 = [wrong("", words) for words in (*answered, *_differing_ids(), *_several_of_a_token())]
    return [*_launches(world), *_actions(world), *by_ec2, *_untagged(world), *errors]


def _differing_ids() -> Iterable[str]:
    """Describe instances whose stored EC2 id differs from the id that their guests derive from the UUID."""
    known = Ec2Id.objects.filter(kind="i", resource_id__in=Instance.objects.values("id"))
    for resource, ec2_id in known.values_list("resource_id", "ec2_id"):
        if ec2_id != ec2.instance_id(str(resource)):
            yield f"The instance {resource} has the id {ec2_id}."


def _untagged(world: World) -> Iterable[Finding]:
    """Return errors for instances that lack the tag of their launch request."""
    numbers = {each.operation.number for each in world.outcomes if each.operation.kind == "launch ec2"}
    names = tuple(world.name(number) for number in numbers)
    tagged = set(Ec2Tag.objects.filter(kind="i", key="Name", value__in=names).values_list("resource_id", flat=True))
    for row in Instance.objects.exclude(id__in=tagged):
        if row.name.startswith(names):
            yield wrong(str(row.id), f"{row.name} has no tag Name.")


def _several_of_a_token() -> Iterable[str]:
    """Describe volumes and interfaces that exist more than once, although their requests had a client token."""
    volumes = Volume.objects.filter(name__endswith=ec2.VOLUME).values_list("name", flat=True)
    interfaces = Port.objects.filter(description__endswith=ec2.INTERFACE).values_list("description", flat=True)
    for name, count in Counter([*volumes, *interfaces]).items():
        if count > 1:
            yield f"There are {count} of {name}."


def _launches(world: World) -> Iterable[Finding]:
    made: dict[str, list[Instance]] = defaultdict(list)
    for row in Instance.objects.order_by("created_at"):
        made[row.name[: len(world.name(0))]].append(row)
    asked: dict[int, list[Outcome]] = defaultdict(list)
    for outcome in world.outcomes:
        if outcome.operation.kind.startswith("launch "):
            asked[outcome.operation.number].append(outcome)
    for outcomes in asked.values():
        operation, answers = outcomes[0].operation, [outcome.answer for outcome in outcomes]
        servers = made.pop(world.name(operation.number), [])
        if any(world.may_be_lost(outcome) for outcome in outcomes):
            continue
        for words in launched(operation, answers, [row.reservation_id for row in servers]):
            statuses = " and ".join(str(answer.status or "nothing") for answer in answers)
            yield wrong(_first(servers), f"Launch {operation.number} ({operation}) was answered {statuses}; {words}")
    for name, servers in made.items():
        yield wrong(_first(servers), f"{name} was not launched by any operation.")


def _first(servers: Sequence[Instance]) -> str:
    return str(servers[0].id) if servers else ""


def launched(operation: Operation, answers: Sequence[Answer], reservations: Sequence[str]) -> Iterable[str]:
    """Describe the errors in the result of one launch, which may have been sent several times. ``reservations`` has the
    reservation of each server.
    """
    least, most = operation.details.get("min_count", 1), operation.details.get("max_count", 1)
    accepted, refused = any(answer.accepted for answer in answers), all(answer.refused for answer in answers)
    if accepted and operation.kind in {"launch bad", "launch over quota"}:
        yield "it should have been refused."
    if accepted and not reservations:
        yield "it made no server."
    elif reservations and (refused or not least <= len(reservations) <= most):
        yield f"it made {len(reservations)} servers."
    if len(set(reservations)) > 1:
        yield "it made servers of several reservations."


def _actions(world: World) -> Iterable[Finding]:
    """Return errors for accepted actions that do not have exactly one record, and for refused actions that have a
    record.
    """
    rows = InstanceAction.objects.values_list("instance_id", "request_id", "action")
    records = Counter((str(instance), request, action) for instance, request, action in rows)
    for outcome in world.outcomes:
        call = CALLS.get(outcome.operation.kind)
        if outcome.operation.kind in ec2.RECORDS:
            yield from _by_ec2(outcome, records)
        if call is None or not outcome.answer.request_id:
            continue
        count = records[outcome.server, outcome.answer.request_id, call.record]
        if outcome.answer.accepted and count != 1 and not (count == 0 and world.may_be_lost(outcome)):
            yield wrong(outcome.server, f"{outcome}: it has {count} records of the action {call.record}.")
        elif outcome.answer.refused and count:
            yield wrong(outcome.server, f"{outcome}: it was refused and has a record.")


def _by_ec2(outcome: Outcome, records: Counter[tuple[str, str, str]]) -> Iterable[Finding]:
    """Return an error for a request with too many records. An accepted request may have no record, because EC2 also
    accepts requests that change nothing.
    """
    names = ec2.RECORDS[outcome.operation.kind]
    count = sum(records[outcome.server, outcome.answer.request_id, name] for name in names)
    if (outcome.answer.refused and count) or (outcome.answer.accepted and count > 1):
        yield wrong(outcome.server, f"{outcome}: it has {count} records of {' or '.join(sorted(names))}.")
