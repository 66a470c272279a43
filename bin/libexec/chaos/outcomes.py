"""Compares what each request was answered with what came of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from chaos.books import Books
from chaos.checks import Wrong
from chaos.client import Answer
from chaos.database import Row
from chaos.journals import plain
from chaos.operations import RECORDED, Outcome, World
from chaos.plan import Operation


def check(books: Books, world: World) -> list[Wrong]:
    """Describe the requests that had no outcome, or more than one."""
    return [*_launches(books, world), *_actions(books, world.outcomes)]


def _launches(books: Books, world: World) -> Iterable[Wrong]:
    made: dict[str, list[Row]] = defaultdict(list)
    for row in books.instances:
        made[row["name"][: len(world.name(0))]].append(row)
    asked: dict[int, list[Outcome]] = defaultdict(list)
    for outcome in world.outcomes:
        if outcome.operation.kind.startswith("launch "):
            asked[outcome.operation.number].append(outcome)
    for outcomes in asked.values():
        operation, answers = outcomes[0].operation, [outcome.answer for outcome in outcomes]
        servers = made.pop(world.name(operation.number), [])
        for words in _launch(operation, answers, servers):
            said = " and ".join(str(answer.status or "nothing") for answer in answers)
            yield Wrong(f"Launch {operation.number} ({operation}) was answered {said}; {words}", _first(servers))
    for name, servers in made.items():
        yield Wrong(f"Nobody launched {name}.", _first(servers))


def _first(servers: Sequence[Row]) -> str:
    return str(servers[0]["id"]) if servers else ""


def _launch(operation: Operation, answers: Sequence[Answer], servers: Sequence[Row]) -> Iterable[str]:
    """Describe what is wrong with the servers of one launch, which may have been sent several times."""
    least, most = operation.details.get("min_count", 1), operation.details.get("max_count", 1)
    accepted, refused = any(answer.accepted for answer in answers), all(answer.refused for answer in answers)
    if accepted and operation.kind in {"launch bad", "launch over quota"}:
        yield "it should have been refused."
    if accepted and not servers:
        yield "it made no server."
    elif servers and (refused or not least <= len(servers) <= most):
        yield f"it made {len(servers)} servers."
    if len({row["reservation_id"] for row in servers}) > 1:
        yield "it made servers of several reservations."


def _actions(books: Books, outcomes: Sequence[Outcome]) -> Iterable[Wrong]:
    """Describe accepted actions without exactly one record, and refused ones with a record of success."""
    records = Counter((row["instance_id"], row["request_id"], row["action"]) for row in books.actions)
    for outcome in outcomes:
        name = RECORDED.get(outcome.operation.kind)
        if name is None or not outcome.answer.request_id:
            continue
        count = records[plain(outcome.server), outcome.answer.request_id, name]
        if outcome.answer.accepted and count != 1:
            yield Wrong(f"{outcome}: it has {count} records of the action {name}.", plain(outcome.server))
        elif outcome.answer.refused and count:
            yield Wrong(f"{outcome}: it was refused and has a record.", plain(outcome.server))


def internal_errors(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the requests that were answered with 500."""
    return [outcome for outcome in outcomes if outcome.answer.status == 500]
