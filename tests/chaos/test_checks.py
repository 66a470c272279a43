"""A chaos run's checks find what is planted."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from chaos import checks, logs, outcomes, story
from chaos.books import Books
from chaos.client import Answer
from chaos.operations import Outcome, World
from chaos.plan import Operation

HOST, SERVER, PROJECT, PORT, IMAGE, ORDER = (digit * 32 for digit in "abcdef")
FLAVOR = {"vcpus": 1, "memory_mb": 512, "disk_gb": 1}
MAC = "fa:16:3e:00:00:01"


def sound() -> Books:
    """One active server, and everything that belongs to it."""
    instance = {
        "id": SERVER,
        "name": "c1-00001",
        "project_id": PROJECT,
        "vm_state": "active",
        "task_state": None,
        "task_deadline": None,
        "power_state": 1,
        "attempt": 1,
        "host_id": HOST,
        "deleted_at": None,
        "flavor": FLAVOR,
        "old_flavor": None,
        "requested_networks": [{"network_id": "n"}],
        "excluded_hosts": [],
        "previous_vm_state": "",
        "snapshot_image_id": None,
        "reservation_id": "r-1",
        "created_at": "",
        "updated_at": "",
    }
    host = {"id": HOST, "name": "sim-1", "memory_mb_total": 8192, "ram_allocation_ratio": 1.0, "connected": True}
    host |= {"vcpus_allocated": 1, "memory_mb_allocated": 512, "disk_gb_allocated": 1, "instances_allocated": 1}
    sizes = {"instances": 1, "cores": 1, "ram": 512, "ports": 1}
    return Books(
        instances=[instance],
        hosts=[host],
        allocations=[{"instance_id": SERVER, "host_id": HOST, "vcpus": 1, "memory_mb": 512, "disk_gb": 1}],
        actions=[
            {
                "id": 1,
                "instance_id": SERVER,
                "action": "create",
                "request_id": "req-1",
                "finished_at": "now",
                "message": None,
                "started_at": "",
            }
        ],
        ports=[{"id": PORT, "device_id": SERVER, "mac_address": MAC, "leaving": False}],
        addresses=[{"port_id": PORT, "subnet_id": "s", "address": "10.20.0.5"}],
        usages=[
            {"project_id": PROJECT, "resource": name, "in_use": amount, "reserved": 0} for name, amount in sizes.items()
        ],
        reservations=[
            {"project_id": PROJECT, "owner_id": SERVER, "resource": name, "amount": amount, "committed": True}
            for name, amount in sizes.items()
        ],
        images=[{"id": IMAGE, "name": "guest", "status": "active"}],
        domains={SERVER: ("sim-1", {"power": 1, "attempt": 1, "interfaces": [MAC], "vcpus": 1, "memory_mb": 512})},
        kept={SERVER: "sim-1"},
    )


def changed(table: str, **values: Any) -> Callable[[Books], None]:
    return lambda books: getattr(books, table)[0].update(values)


def emptied(table: str) -> Callable[[Books], None]:
    return lambda books: getattr(books, table).clear()


def added(table: str, **values: Any) -> Callable[[Books], None]:
    return lambda books: getattr(books, table).append(values)


def domain(**values: Any) -> Callable[[Books], None]:
    return lambda books: books.domains[SERVER][1].update(values)  # type: ignore[attr-defined]


def somewhere(**values: Any) -> Callable[[Books], None]:
    return lambda books: [setattr(books, name, value) for name, value in values.items()] and None


PLANTED: dict[str, tuple[Callable[[Books], None], str]] = {
    "a host that is away": (changed("hosts", connected=False), "is not connected"),
    "a task": (changed("instances", task_state="spawning"), "still on its way"),
    "building": (changed("instances", vm_state="building"), "still on its way"),
    "deleted without a date": (changed("instances", vm_state="deleted"), "deleted_at"),
    "a message": (added("messages", id=5, key="scheduler"), "still in the queue"),
    "an order": (
        added(
            "orders",
            id=ORDER,
            kind="stop_request",
            generation=1,
            subject_id=SERVER,
            created_at="",
            acknowledged_at=None,
            finished_at=None,
        ),
        "has not ended (not taken)",
    ),
    "an action": (changed("actions", finished_at=None), "action create"),
    "a traceback": (changed("actions", message="Traceback (most recent call last)"), "says"),
    "a migration": (added("migrations", instance_id=SERVER, status="migrating"), "still migrating"),
    "no fault": (changed("instances", vm_state="error"), "has no fault"),
    "a fault of a program": (added("faults", instance_id=SERVER, message="KeyError: 'host' was not there"), "fault of"),
    "an empty fault": (added("faults", instance_id=SERVER, message=""), "fault of"),
    "no room": (emptied("allocations"), "holds no room"),
    "room elsewhere": (changed("allocations", host_id=ORDER), "on another host"),
    "other room": (changed("allocations", vcpus=2), "and takes"),
    "room of nobody": (
        added("allocations", instance_id=ORDER, host_id=HOST, vcpus=0, memory_mb=0, disk_gb=0),
        "which there is not",
    ),
    "room of a deleted server": (
        changed("instances", vm_state="deleted", deleted_at="now"),
        "still holds room on a host",
    ),
    "a counter of a host": (changed("hosts", vcpus_allocated=3), "counts 3 vcpus"),
    "a full host": (changed("hosts", memory_mb_total=100), "more memory than it has"),
    "a second domain": (somewhere(twice={SERVER: "sim-1 and sim-2 at 12:00:00"}), "had a domain on sim-1 and sim-2"),
    "no domain": (somewhere(domains={}, kept={}), "has no domain"),
    "a domain elsewhere": (somewhere(domains={SERVER: ("sim-2", {"power": 1, "attempt": 1})}), "not on sim-1"),
    "a domain of nobody": (
        lambda books: books.domains.update({ORDER: ("sim-2", {})}),  # type: ignore[attr-defined]
        "a domain of",
    ),
    "a domain that is off": (domain(power=4), "power state 4"),
    "an old domain": (domain(attempt=0), "of attempt 0"),
    "a disk of nobody": (somewhere(kept={SERVER: "sim-1", ORDER: "sim-2"}), "still has something"),
    "no port": (emptied("ports"), "has 0 ports"),
    "a port of nobody": (changed("ports", device_id=ORDER), "which there is not"),
    "a port without address": (emptied("addresses"), "has no address"),
    "a port that leaves": (changed("ports", leaving=True), "still leaving"),
    "an address twice": (added("addresses", port_id=PORT, subnet_id="s", address="10.20.0.5"), "given 2 times"),
    "another interface": (domain(interfaces=[]), "has the interfaces"),
    "too little quota": (changed("reservations", amount=2), "should hold"),
    "quota in advance": (changed("reservations", committed=False), "reserved only"),
    "a counter of a project": (changed("usages", in_use=4), "counts 4"),
    "an image on its way": (changed("images", status="saving"), "still saving"),
    "a shelf without image": (changed("instances", vm_state="shelved_offloaded"), "comes back from"),
}


def test_a_sound_cloud_is_sound() -> None:
    assert checks.settled(sound()) == []


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found(name: str) -> None:
    plant, words = PLANTED[name]
    books = deepcopy(sound())
    plant(books)
    found = [str(wrong) for wrong in checks.settled(books)]
    assert any(words in wrong for wrong in found), found


def test_whatever_is_left_at_the_end_is_found() -> None:
    found = " ".join(str(wrong) for wrong in checks.empty(sound()))
    for words in ("is not deleted", "still allocated", "still has something", "still belongs", "still uses"):
        assert words in found
    assert checks.empty(Books()) == []


def test_the_story_of_a_server_has_what_is_known_of_it() -> None:
    lines = story.story(sound(), SERVER)
    assert any("vm_state=active" in line for line in lines)
    assert any("action create" in line for line in lines)
    assert any("domain on sim-1" in line for line in lines)


# ----- outcomes -------------------------------------------------------------------------------------------------------


def world(operation: Operation, answer: Answer, server: str = "") -> World:
    made = World([], None, [], "", "", {}, "c1", lambda _: None)  # type: ignore[arg-type]
    made.outcomes.append(Outcome(operation, 0.0, 0.1, answer, server))
    return made


LAUNCH = Operation(1, 0, "launch plain")
SEVERAL = Operation(1, 0, "launch several", details={"min_count": 2, "max_count": 3})


@pytest.mark.parametrize(
    ("operation", "status", "servers", "wrong"),
    [
        (LAUNCH, 202, 1, False),
        (LAUNCH, 202, 0, True),
        (LAUNCH, 202, 2, True),
        (LAUNCH, 403, 0, False),
        (LAUNCH, 403, 1, True),
        (LAUNCH, 0, 0, False),
        (LAUNCH, 0, 1, False),
        (LAUNCH, 0, 2, True),
        (LAUNCH, 503, 2, True),
        (SEVERAL, 202, 1, True),
        (SEVERAL, 202, 3, False),
        (SEVERAL, 0, 1, True),
        (Operation(1, 0, "launch bad"), 202, 1, True),
    ],
)
def test_a_launch_makes_what_was_answered(operation: Operation, status: int, servers: int, wrong: bool) -> None:
    books = sound()
    books.instances = [{**books.instances[0], "id": f"{number:032x}"} for number in range(servers)]
    found = outcomes.check(books, world(operation, Answer(status, None, "req-1")))
    assert bool(found) is wrong, found


@pytest.mark.parametrize(
    ("statuses", "servers", "wrong"),
    [((202, 202), 1, False), ((202, 0), 2, True), ((403, 0), 1, False), ((403, 403), 1, True)],
)
def test_a_launch_that_is_sent_twice_makes_one_server(statuses: tuple[int, int], servers: int, wrong: bool) -> None:
    books = sound()
    books.instances = [{**books.instances[0], "id": f"{number:032x}"} for number in range(servers)]
    twice = Operation(1, 0, "launch repeated", times=2)
    sent = world(twice, Answer(statuses[0], None, ""))
    sent.outcomes.append(Outcome(twice, 0.0, 0.1, Answer(statuses[1], None, "")))
    assert bool(outcomes.check(books, sent)) is wrong


def test_servers_of_a_launch_that_nobody_asked_for_are_found() -> None:
    other = world(Operation(2, 0, "launch plain"), Answer(0, None, ""))
    assert "Nobody launched" in " ".join(str(wrong) for wrong in outcomes.check(sound(), other))


@pytest.mark.parametrize(
    ("status", "request_id", "wrong"), [(202, "req-2", False), (202, "req-9", True), (409, "req-2", True)]
)
def test_an_accepted_action_has_one_record_and_a_refused_one_none(status: int, request_id: str, wrong: bool) -> None:
    books = sound()
    books.actions.append(
        {"instance_id": SERVER, "action": "stop", "request_id": "req-2", "finished_at": "now", "message": None}
    )
    asked = world(LAUNCH, Answer(202, None, "req-1"))
    stop = Operation(2, 0, "stop", target=1)
    asked.outcomes.append(Outcome(stop, 0.0, 0.1, Answer(status, None, request_id), SERVER))
    assert bool(outcomes.check(books, asked)) is wrong


def test_exceptions_that_no_fault_explains_are_counted(tmp_path: Path) -> None:
    (tmp_path / "web.log").write_text(
        "Traceback (most recent call last):\n"
        "django.db.utils.OperationalError: database is locked\n"
        "ValueError: 12345 is no id\n"
        "2026-01-01 ERROR something: ValueError is a word here\n"
        "ValueError: 67890 is no id\n"
    )
    assert logs.unexpected(tmp_path) == {"web: ValueError: … is no id": 2}


def test_only_what_an_operator_called_active_may_have_no_guest() -> None:
    books = sound()
    books.domains.pop(SERVER)
    books.instances[0] |= {"vm_state": "stopped", "power_state": 0}
    assert checks.called_active_and_never_built(books) == set()
    by_hand = {**books.actions[0], "id": 2, "action": "resetState"}
    books = Books(**{**vars(books), "actions": [*books.actions, by_hand]})
    assert checks.called_active_and_never_built(books) == set(), "it was built before"
    books.actions[0]["message"] = "An administrator has reset the server's state."
    assert checks.called_active_and_never_built(books) == {SERVER}
    books.instances[0]["vm_state"] = "active"
    assert checks.called_active_and_never_built(books) == set()
