"""A chaos run's checks find what is planted; what is wrong with the records is the doctor's to find."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone
from django_q.models import OrmQ

from compute_agent.contract.commands import DestroyRequest, PowerRequest
from compute_agent.contract.network import NETWORK, SECURITY_GROUP
from provisioning.compute.actions.reset_state import BY_HAND
from provisioning.compute.models import Instance, InstanceAction, Migration
from provisioning.compute.records import host_commands
from provisioning.compute.states import PowerState, TaskState, VmState
from provisioning.drains.models import Drain
from provisioning.ec2.models import Ec2Id, Ec2Tag
from provisioning.hosts.models import Host, HostCommand
from provisioning.images.models import Image
from provisioning.jobs.models import WorkerBeat
from provisioning.network.models import Port, SecurityGroup
from provisioning.network.services import allow_ingress
from provisioning.quotas.models import QuotaUsage
from provisioning.volumes.models import Volume
from tests.support.clouds import Cloud, context
from tests.support.ports import guest_ports
from tests.support.standing import standing
from tools.chaos.checks import checks, logs, outcomes, story
from tools.chaos.checks.journals import Overlap, Seen
from tools.chaos.clients import ec2
from tools.chaos.clients.client import Answer
from tools.chaos.clients.ec2_user import Ec2, Ids
from tools.chaos.clients.world import Outcome, World
from tools.chaos.plan import Operation

pytestmark = pytest.mark.slow

NOBODY = str(uuid.UUID(int=7))
SILENT = 1.5
"""Seconds of silence after the limit, so that a host certainly counts as down."""


@dataclass
class Scene:
    """One active server, and what its host has of it."""

    server: Instance
    seen: Seen

    @property
    def id(self) -> str:
        return str(self.server.id)

    def domain(self, **values: Any) -> None:
        host, domain = self.seen.domains[self.id]
        self.seen = replace(self.seen, domains={self.id: (host, {**domain, **values})})


@pytest.fixture
@standing
def server(db: None) -> Instance:
    cloud = Cloud.make()
    cloud.add_host("sim-1")
    return cloud.running(context("alice"))


@pytest.fixture
def scene(server: Instance) -> Scene:
    WorkerBeat.objects.create(name="m:b:1", topics="scheduler,conductor", beat_at=timezone.now() + timedelta(hours=1))
    macs = list(guest_ports().values_list("mac_address", flat=True))
    domain = {"power": 1, "attempt": server.attempt, "interfaces": macs, "vcpus": 1, "memory_mb": 1024}
    return Scene(server, Seen({str(server.id): ("sim-1", domain)}, {str(server.id): "sim-1"}, {}))


def changed(**values: Any) -> Callable[[Scene], object]:
    return lambda scene: Instance.objects.filter(id=scene.id).update(**values)


def seen(**values: Any) -> Callable[[Scene], None]:
    return lambda scene: setattr(scene, "seen", replace(scene.seen, **values))


def another_domain(scene: Scene) -> None:
    scene.seen = replace(scene.seen, domains={**scene.seen.domains, NOBODY: ("sim-2", {"power": 1})})


def a_command(scene: Scene) -> None:
    row = scene.server
    assert row.host_id
    host_commands.send(row.host_id, row.id, row.attempt, PowerRequest(action="stop"), None)


def twice(scene: Scene, *, silence: float, has_volumes: bool = False, removed_after: float = 2) -> None:
    """The server's guest ran on two hosts from five seconds before its first host got the command to remove it.
    ``silence``: seconds in which that host was silent, beyond the limit.
    """
    began = time.time() - 60
    row = scene.server
    assert row.host_id
    removal = host_commands.send(row.host_id, row.id, row.attempt, DestroyRequest(), None)
    times = {name: datetime.fromtimestamp(began + at, UTC) for name, at in (("created_at", -1), ("acknowledged_at", 5))}
    HostCommand.objects.filter(id=removal.id).update(finished_at=timezone.now(), **times)
    silent = settings.HOST_DOWN_AFTER + silence
    overlap = Overlap(["sim-1", "sim-2"], began, silent, has_volumes, began + 5 + removed_after)
    seen(twice={scene.id: [overlap]})(scene)


def a_migration(scene: Scene, status: str) -> None:
    size = {"flavorid": "1"}
    Migration.objects.create(
        id=1, instance=scene.server, migration_type="migration", status=status, old_flavor=size, new_flavor=size,
        created_at=timezone.now(), updated_at=timezone.now(),
    )  # fmt: skip


PLANTED: dict[str, tuple[Callable[[Scene], object], str]] = {
    "a host that is away": (lambda _: Host.objects.update(connected=False), "is not connected"),
    "a task": (changed(task_state=TaskState.PAUSING, task_deadline=timezone.now()), "still on its way"),
    "building": (changed(vm_state=VmState.BUILDING), "still on its way"),
    "a message": (
        lambda _: OrmQ.objects.create(key="scheduler", payload="", lock=timezone.now()),
        "still in the queue",
    ),
    "a command": (a_command, "has not ended (not taken)"),
    "room of a deleted server": (
        changed(vm_state=VmState.DELETED, deleted_at=timezone.now()),
        "still has an allocation on a host",
    ),
    "a port that leaves": (lambda _: Port.objects.update(leaving=True), "still leaving"),
    "an image on its way": (lambda _: Image.objects.update(status="saving"), "still saving"),
    "what the doctor finds": (lambda _: QuotaUsage.objects.filter(resource="cores").update(in_use=4), "4 in use"),
    "a guest that ran twice": (
        lambda scene: twice(scene, silence=SILENT - 2),
        "guest ran on sim-1 and sim-2",
    ),
    "a guest with a volume that ran twice": (
        lambda scene: twice(scene, silence=SILENT, has_volumes=True),
        "guest ran on sim-1 and sim-2",
    ),
    "a guest that ran twice for long": (
        lambda scene: twice(scene, silence=SILENT, removed_after=6),
        "guest ran on sim-1 and sim-2",
    ),
    "a disk on another host": (
        lambda scene: seen(holders={scene.id: frozenset({"sim-1", "sim-2"})})(scene),
        "is on host sim-1; sim-2 has something of it",
    ),
    "a move on its way": (lambda scene: a_migration(scene, "migrating"), "migration 1 is still migrating"),
    "a move that nobody can confirm": (lambda scene: a_migration(scene, "finished"), "is still finished"),
    "an old host that is not clean": (lambda scene: a_migration(scene, "done"), "is still done"),
    "a drain": (
        lambda _: Drain.objects.create(host=Host.objects.get(), user_id=uuid.UUID(int=1), project_id=uuid.UUID(int=1)),
        "drain is still running",
    ),
    "no domain": (seen(domains={}, kept={}), "has no domain"),
    "a domain elsewhere": (
        lambda scene: seen(domains={scene.id: ("sim-2", scene.seen.domains[scene.id][1])})(scene),
        "not on sim-1",
    ),
    "a domain of nobody": (another_domain, "sim-2 still has something of it"),
    "a domain of a shelved server": (
        changed(vm_state=VmState.SHELVED_OFFLOADED, host=None),
        "sim-1 still has something of it",
    ),
    "a domain that is off": (lambda scene: scene.domain(power=4), "power state SHUTDOWN"),
    "an old domain": (lambda scene: scene.domain(attempt=0), "of attempt 0"),
    "a disk of nobody": (seen(kept={NOBODY: "sim-2"}), "sim-2 still has something of it"),
    "another interface": (lambda scene: scene.domain(interfaces=[]), "and the ports"),
}


def test_a_sound_cloud_is_sound(scene: Scene) -> None:
    assert checks.settled(scene.seen) == []


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found(scene: Scene, name: str) -> None:
    plant, words = PLANTED[name]
    plant(scene)
    result = [each.sentence for each in checks.settled(scene.seen)]
    assert any(words in sentence for sentence in result), result


def test_a_guest_may_run_twice_until_a_silent_host_removes_it(scene: Scene) -> None:
    twice(scene, silence=SILENT)
    assert checks.settled(scene.seen) == []


def test_whatever_is_left_at_the_end_is_found(scene: Scene) -> None:
    result = " ".join(each.sentence for each in checks.empty(scene.seen))
    for words in ("is not deleted", "still has an allocation", "still has something"):
        assert words in result


def test_the_story_of_a_server_has_what_is_known_of_it(scene: Scene) -> None:
    lines = story.story(scene.seen, scene.id)
    assert any("vm_state=active" in line for line in lines)
    assert any("action create" in line for line in lines)
    assert any("command build_request" in line for line in lines)
    assert any("domain on sim-1" in line for line in lines)


def test_only_what_an_operator_called_active_may_have_no_guest(scene: Scene) -> None:
    nothing = Seen({}, {}, {})
    changed(vm_state=VmState.STOPPED, power_state=PowerState.NOSTATE)(scene)
    assert checks.called_active_and_never_built(nothing) == set()
    now = timezone.now()
    InstanceAction.objects.create(
        instance=scene.server, action="resetState", request_id="req-2", started_at=now, finished_at=now
    )
    assert checks.called_active_and_never_built(nothing) == set(), "it was built before"
    assert any(each.check == "guests" for each in checks.settled(nothing))
    InstanceAction.objects.filter(action="create").update(message=BY_HAND)
    assert checks.called_active_and_never_built(nothing) == {scene.id}
    assert checks.settled(nothing) == []
    assert checks.called_active_and_never_built(scene.seen) == set(), "it has a domain"
    changed(vm_state=VmState.ACTIVE)(scene)
    assert checks.called_active_and_never_built(nothing) == set()


# ----- outcomes -------------------------------------------------------------------------------------------------------


def world(operation: Operation, answer: Answer, server: str = "") -> World:
    made = World([], None, [], "", "", {}, "c1", lambda _: None)  # type: ignore[arg-type]
    made.outcomes.append(Outcome(operation, 0.0, 0.1, answer, server))
    return made


LAUNCH = Operation(1, 0, "launch plain")
SEVERAL = Operation(1, 0, "launch several", details={"min_count": 2, "max_count": 3})
BY_EC2 = Operation(1, 0, "launch ec2", times=3, details={"min_count": 2, "max_count": 2})


@pytest.mark.parametrize(
    ("operation", "statuses", "servers", "wrong"),
    [
        (LAUNCH, [202], 1, False),
        (LAUNCH, [202], 0, True),
        (LAUNCH, [202], 2, True),
        (LAUNCH, [403], 0, False),
        (LAUNCH, [403], 1, True),
        (LAUNCH, [0], 0, False),
        (LAUNCH, [0], 1, False),
        (LAUNCH, [0], 2, True),
        (LAUNCH, [503], 2, True),
        (SEVERAL, [202], 1, True),
        (SEVERAL, [202], 3, False),
        (SEVERAL, [0], 1, True),
        (Operation(1, 0, "launch bad"), [202], 1, True),
        (Operation(1, 0, "launch repeated", times=2), [202, 202], 1, False),
        (Operation(1, 0, "launch repeated", times=2), [202, 0], 2, True),
        (Operation(1, 0, "launch repeated", times=2), [403, 0], 1, False),
        (Operation(1, 0, "launch repeated", times=2), [403, 403], 1, True),
        (BY_EC2, [200, 0, 200], 2, False),
        (BY_EC2, [200, 200], 4, True),
        (BY_EC2, [0, 503], 1, True),
    ],
)
def test_a_launch_makes_what_was_answered(operation: Operation, statuses: list[int], servers: int, wrong: bool) -> None:
    result = list(outcomes.launched(operation, [Answer(status, None, "") for status in statuses], ["r-1"] * servers))
    assert bool(result) is wrong, result


def test_servers_of_one_launch_have_one_reservation() -> None:
    assert list(outcomes.launched(SEVERAL, [Answer(202, None, "")], ["r-1", "r-2"]))


def test_servers_of_a_launch_that_nobody_asked_for_are_found(scene: Scene) -> None:
    changed(name="c1-00001-2")(scene)
    assert outcomes.check(world(LAUNCH, Answer(202, None, ""))) == []
    other = world(Operation(2, 0, "launch plain"), Answer(0, None, ""))
    assert [each.sentence for each in outcomes.check(other)] == ["c1-00001 was not launched by any operation."]


@pytest.mark.parametrize(
    ("status", "request_id", "wrong"),
    [(202, "req-2", False), (202, "req-9", True), (409, "req-2", True), (500, "req-9", True)],
)
def test_an_accepted_action_has_one_record_and_a_refused_one_none(
    scene: Scene, status: int, request_id: str, wrong: bool
) -> None:
    changed(name="c1-00001")(scene)
    InstanceAction.objects.create(
        instance=scene.server, action="stop", request_id="req-2", started_at=timezone.now(), finished_at=timezone.now()
    )
    recorded = world(LAUNCH, Answer(202, None, "req-1"))
    stop = Operation(2, 0, "os-stop", target=1)
    recorded.outcomes.append(Outcome(stop, 0.0, 0.1, Answer(status, None, request_id), scene.id))
    assert bool(outcomes.check(recorded)) is wrong


def of(*ec2_ids: str) -> Answer:
    """Return what RunInstances says of these instances."""
    return Answer(200, {"Instances": [{"InstanceId": each} for each in ec2_ids]}, "req-1")


def test_requests_with_one_client_token_have_one_answer() -> None:
    recorded = world(BY_EC2, of("i-1", "i-2"))
    recorded.outcomes.append(Outcome(BY_EC2, 0.0, 0.1, of("i-2", "i-1")))
    assert ec2.same_answers(recorded.outcomes) == []
    recorded.outcomes.append(Outcome(BY_EC2, 0.0, 0.1, of("i-1", "i-3")))
    assert len(ec2.same_answers(recorded.outcomes)) == 1


def test_an_id_of_ec2_means_the_same_thing_in_every_answer() -> None:
    ids = Ids()
    for ec2_id, thing, alone in (("i-1", "one", True), ("i-1", "one", True), ("eipalloc-1", "an address", False)):
        ids.shown(ec2_id, thing, alone=alone)
    ids.shown("eipalloc-2", "an address", alone=False)
    assert ids.wrongs == [], "an address that was given back may be somebody else's"
    ids.shown("i-1", "another")
    ids.shown("i-2", "one")
    assert len(ids.wrongs) == 2


def test_an_internal_error_counts_also_where_an_answer_is_only_looked_at(scene: Scene) -> None:
    changed(name="c1-00001")(scene)
    recorded = world(LAUNCH, Answer(202, None, ""))
    recorded.by_ec2.append(Ec2(1, "access", "secret"))
    assert outcomes.check(recorded) == []
    recorded.by_ec2[0].broken.append("DescribeTags was an internal error: so and so")
    assert [each.sentence for each in outcomes.check(recorded)] == recorded.by_ec2[0].broken


def test_what_only_ec2_keeps_is_looked_at_too(scene: Scene) -> None:
    def found() -> list[str]:
        return [each.sentence for each in outcomes.check(world(LAUNCH, Answer(202, None, "")))]

    changed(name="c1-00001")(scene)
    Ec2Id.objects.create(kind="i", resource_id=scene.server.id, ec2_id=ec2.instance_id(scene.id))
    own = {"project_id": scene.server.project_id, "size_gb": 1, "name": f"c1-00002{ec2.VOLUME}"}
    Volume.objects.create(**own)
    assert found() == []
    Ec2Id.objects.update(ec2_id="i-00000000000000007")
    Volume.objects.create(**own)
    assert sorted(found()) == [
        f"The instance {scene.id} has the id i-00000000000000007.",
        f"There are 2 of {own['name']}.",
    ]


def test_a_launch_by_ec2_has_the_tags_of_its_request(scene: Scene) -> None:
    changed(name="c1-00001-1")(scene)
    recorded = world(replace(BY_EC2, details={}), of(ec2.instance_id(scene.id)))
    assert [each.sentence for each in outcomes.check(recorded)] == ["c1-00001-1 has no tag Name."]
    own = {"project_id": scene.server.project_id, "resource_id": scene.server.id}
    Ec2Tag.objects.create(kind="i", key="Name", value="c1-00001", **own)
    assert outcomes.check(recorded) == []


@pytest.mark.parametrize(
    ("status", "records", "wrong"),
    [(200, 1, False), (200, 0, False), (200, 2, True), (400, 0, False), (400, 1, True)],
)
def test_what_ec2_accepts_has_one_record_at_most(scene: Scene, status: int, records: int, wrong: bool) -> None:
    changed(name="c1-00001")(scene)
    for action in ("start", "resume")[:records]:
        InstanceAction.objects.create(
            instance=scene.server, action=action, request_id="req-2", started_at=timezone.now()
        )
    recorded = world(LAUNCH, Answer(202, None, "req-1"))
    start = Operation(2, 0, "ec2_start", target=1)
    recorded.outcomes.append(Outcome(start, 0.0, 0.1, Answer(status, None, "req-2"), scene.id))
    assert bool(outcomes.check(recorded)) is wrong


def test_exceptions_that_no_fault_explains_are_counted(tmp_path: Path) -> None:
    (tmp_path / "web.log").write_text(
        "Traceback (most recent call last):\n"
        "django.db.utils.OperationalError: database is locked\n"
        "ValueError: 12345 is no id\n"
        "2026-01-01 ERROR something: ValueError is a word here\n"
        "ValueError: 67890 is no id\n"
    )
    assert logs.unexpected(tmp_path) == {"web: ValueError: … is no id": 2}


def test_what_hosts_know_of_networks_is_compared_with_the_records(db: None) -> None:
    cloud = Cloud.make()
    agent = cloud.add_host("sim-1", documents=True)
    cloud.running(context("alice"))
    known = {subject: document for subject, (_, document) in agent.documents.items()}
    assert {kind for kind, _ in known} == {NETWORK, SECURITY_GROUP}

    def sentences(reported: dict[tuple[str, str], Any]) -> list[str]:
        return [each.sentence for each in checks.reported(Seen({}, {}, {}, {"sim-1": reported}))]

    assert sentences(known) == []
    ((of_group, group),) = ((subject, document) for subject, document in known.items() if subject[0] == SECURITY_GROUP)
    assert sentences({subject: each for subject, each in known.items() if subject != of_group}) == [
        "Host sim-1 does not know of it."
    ]
    assert sentences({**known, (SECURITY_GROUP, NOBODY): group}) == ["Host sim-1 knows of it, and should not."]
    allow_ingress(SecurityGroup.objects.get(id=group.id), "tcp", 22)
    assert sentences(known) == ["Host sim-1 knows it as it was."]
