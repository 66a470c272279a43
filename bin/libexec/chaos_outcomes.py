"""One outcome per request: what was answered compared with what was made."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from chaos_books import Books
from chaos_checks import Wrong
from chaos_database import Row
from chaos_journals import plain
from chaos_operations import RECORDED, Outcome, World

HARMLESS = {500, 502, 503, 504}
"""Answers of a cloud in trouble: nobody can tell what was done."""


def check(books: Books, world: World) -> list[Wrong]:
    """Say which requests had no outcome, or more than one."""
    return [*_launches(books, world), *_actions(books, world.outcomes)]


def _launches(books: Books, world: World) -> Iterable[Wrong]:
    made: dict[str, list[Row]] = defaultdict(list)
    for row in books.instances:
        made[row["name"][: len(world.name(0))]].append(row)
    for outcome in world.outcomes:
        operation = outcome.operation
        if not operation.kind.startswith("launch "):
            continue
        servers = made.pop(world.name(operation.number), [])
        least, most = operation.details.get("min_count", 1), operation.details.get("max_count", 1)
        allowed = range(least, most + 1)
        said = f"Launch {operation.number} ({operation}) was answered {outcome.answer.status or 'nothing'}"
        who = servers[0]["id"] if servers else ""
        if outcome.answer.accepted and len(servers) not in allowed:
            yield Wrong(f"{said} and made {len(servers)} servers.", who)
        elif outcome.answer.refused and servers:
            yield Wrong(f"{said} ({outcome.answer.words}) and made {len(servers)} servers.", who)
        elif servers and len(servers) not in allowed:
            yield Wrong(f"{said} and made {len(servers)} servers.", who)
        if len({row["reservation_id"] for row in servers}) > 1:
            yield Wrong(f"{said} and made servers of several reservations.", who)
        if outcome.answer.accepted and operation.kind in {"launch bad", "launch over quota"}:
            yield Wrong(f"{said}; it should have been refused.", who)
    for name, servers in made.items():
        yield Wrong(f"Nobody launched {name}.", servers[0]["id"])


def _actions(books: Books, outcomes: Sequence[Outcome]) -> Iterable[Wrong]:
    """An accepted action has one record, and a refused one has none, or one that says that it failed."""
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
    """Return the requests that were answered 500."""
    return [outcome for outcome in outcomes if outcome.answer.status == 500]
