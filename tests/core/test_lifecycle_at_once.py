"""Everything at once: owners, operators, workers, hosts and periodic jobs, on the same few servers."""

from __future__ import annotations

import logging
import os
import random
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import NovellaError
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.interfaces import add_fixed_ip, attach_interface, detach_interface
from provisioning.compute.actions.lock import Unlock, lock
from provisioning.compute.actions.power import CrashDump, Start, Stop, reboot
from provisioning.compute.actions.rebuild import Rebuild, RebuildAction
from provisioning.compute.actions.rescue import Unrescue, rescue
from provisioning.compute.actions.reset_state import BY_HAND, ResetState
from provisioning.compute.actions.resize import ConfirmResize, resize
from provisioning.compute.actions.revert_resize import RevertResize
from provisioning.compute.actions.shelve import Offload, Shelve
from provisioning.compute.actions.snapshot import create_backup, create_image
from provisioning.compute.actions.soft_delete import Restore
from provisioning.compute.actions.unshelve import unshelve
from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.models import Instance, InstanceAction
from provisioning.compute.services.metadata import merge_metadata
from provisioning.compute.states import VmState
from provisioning.compute.upkeep.confirm_resizes import confirm_resizes
from provisioning.compute.upkeep.offload import offload_shelved
from provisioning.compute.upkeep.reaper import reap
from provisioning.compute.upkeep.reclaim import reclaim
from provisioning.doctor.checks.guests import GUESTLESS
from provisioning.hosts.models import HostCommand
from provisioning.images import services as images
from provisioning.images.models import Image
from provisioning.network.models import Port
from provisioning.quotas.services.limits import set_limit
from tests.core.test_parallel import in_threads
from tests.support import invariants
from tests.support.actions import service
from tests.support.clouds import ADMIN, Cloud, context
from tests.support.jobs import drain
from tests.support.scripted_agent import ScriptedAgent

pytestmark = [pytest.mark.both_databases("locks"), pytest.mark.slow]

POWER: list[Any] = ["pause", "unpause", "suspend", "resume"]
FIRST = int(os.environ.get("TESTS_AT_ONCE_SEED", "0"))
LONG = int(os.environ.get("TESTS_AT_ONCE_ROUNDS", "0"))
"""Rounds of a long run; without it two short ones."""


class Crowd:
    """One round: so many servers and threads, a seed for what each of them does."""

    def __init__(self, cloud: Cloud, seed: int) -> None:
        self.cloud, self.seed = cloud, seed
        self.errors: list[Exception] = []
        self.servers = [cloud.launch(context("alice")).id for _ in range(4)]
        cloud.run()

    def acts(self, chance: random.Random) -> Callable[[Any], object]:
        image, networks = str(self.cloud.image.id), str(self.cloud.network.id)
        operator = context("operator", ADMIN)
        caller = context("alice")

        def port(server: Any) -> str:
            row = Port.objects.filter(device_id=server).order_by("?").first()
            return str(row.id) if row else image

        return chance.choice(
            [
                lambda server: Stop.begin(caller, server),
                lambda server: Start.begin(caller, server),
                lambda server: reboot(caller, server, hard=chance.random() < 0.5),
                lambda server: service(chance.choice(POWER))(caller, server),
                lambda server: resize(caller, server, chance.choice(["1", "2"])),
                lambda server: resize(caller, server, chance.choice(["1", "2"])),
                lambda server: ConfirmResize.begin(caller, server),
                lambda server: RevertResize.begin(caller, server),
                lambda server: RebuildAction.begin(caller, server, Rebuild(image)),
                lambda server: rescue(caller, server),
                lambda server: Unrescue.begin(caller, server),
                lambda server: create_image(caller, server, "copy"),
                lambda server: create_backup(caller, server, "copy", "daily", 1),
                lambda server: Shelve.begin(caller, server),
                lambda server: unshelve(caller, server),
                lambda server: Offload.begin(operator, server),
                lambda server: CrashDump.begin(caller, server),
                lambda server: attach_interface(caller, server, NetworkRequest(networks)),
                lambda server: detach_interface(caller, server, port(server)),
                lambda server: add_fixed_ip(caller, server, networks),
                lambda server: delete(caller, server, force=chance.random() < 0.3),
                lambda server: Restore.begin(caller, server),
                lambda server: ResetState.begin(operator, server, chance.choice(["active", "error"])),
                lambda server: merge_metadata(caller, server, {"a": str(chance.random())}),
                lambda server: lock(caller, server),
                lambda server: Unlock.begin(caller, server),
                lambda server: images.delete(caller, chance.choice([*self.copies(), uuid.uuid4()])),
                lambda _: self.cloud.launch(caller),
            ]
        )

    def copies(self) -> list[Any]:
        made = Image.objects.exclude(id=self.cloud.image.id).exclude(status="deleted")
        return list(made.values_list("id", flat=True))

    def guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except NovellaError:
            pass
        except OperationalError as error:
            if connection.vendor == "sqlite" and "locked" in str(error):
                return
            self.errors.append(error)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.errors.append(error)

    def ask(self, index: int, steps: int) -> None:
        chance = random.Random(self.seed * 100 + index)  # noqa: S311 - the same for the same seed
        for _ in range(steps):
            act = self.acts(chance)
            there = list(Instance.objects.filter(deleted_at=None).values_list("id", flat=True))
            server = chance.choice(there or self.servers)
            self.guarded(lambda act=act, server=server: act(server))  # type: ignore[misc]

    def look_after(self, steps: int) -> None:
        chance = random.Random(self.seed)  # noqa: S311
        for _ in range(steps):
            some = Instance.objects.exclude(task_state=None).values_list("id", flat=True)
            if some and chance.random() < 0.3:
                overdue = timezone.now() - timedelta(seconds=1)
                late = Instance.objects.filter(id=chance.choice(list(some)), task_deadline__isnull=False)
                late.update(task_deadline=overdue)
            for work in (reap, reclaim, offload_shelved, confirm_resizes, drain):
                self.guarded(work)

    def host(self, agent: ScriptedAgent, steps: int) -> None:
        chance = random.Random(self.seed + 7)  # noqa: S311
        for _ in range(steps):
            self.guarded(lambda: self.turn(agent, chance))

    def turn(self, agent: ScriptedAgent, chance: random.Random) -> None:
        for command in agent.take():
            luck = chance.random()
            if luck < 0.7:
                self.guarded(lambda command=command: agent.carry_out(command))  # type: ignore[misc]
            elif luck < 0.85:
                agent.report(command, "failed", error_code="host_failed", message="No.", retryable=luck < 0.8)
        if chance.random() < 0.2:
            agent.repeat_everything()
        if chance.random() < 0.2:
            agent.hello()

    def run(self, steps: int) -> None:
        parts: list[Callable[[], None]] = [lambda index=index: self.ask(index, steps) for index in range(4)]  # type: ignore[misc]
        parts.append(lambda: self.look_after(steps))
        parts.extend(lambda agent=agent: self.host(agent, steps) for agent in self.cloud.agents.values())  # type: ignore[misc]
        results = in_threads(len(parts), lambda index: parts[index]())
        assert not [result for result in results if result is not None], results
        assert not self.errors, self.errors

    def end(self) -> None:
        """Let it come to rest, delete all there is, and look at what is left."""
        for _ in range(4):
            self.cloud.run()
            Instance.objects.exclude(task_state=None).update(task_deadline=timezone.now() - timedelta(seconds=1))
            reap()
        assert not Instance.objects.exclude(task_state=None).exists()
        # Who is reset to active while it is built has no guest, as the doctor says; deleting it is one of its ways out.
        by_hand = InstanceAction.objects.filter(action="create", message=BY_HAND).values_list("instance_id", flat=True)
        for server in GUESTLESS():
            if server.id in by_hand and server.launched_at is None:
                delete(context("operator", ADMIN), server.id, force=True)
        self.cloud.run()
        invariants.check()
        for server in Instance.objects.exclude(vm_state=VmState.DELETED):
            delete(context("operator", ADMIN), server.id, force=True)
        self.cloud.run()
        long_ago = timezone.now() - timedelta(hours=1)
        HostCommand.objects.filter(kind="destroy_request").update(created_at=long_ago)
        HostCommand.objects.exclude(acknowledged_at=None).update(acknowledged_at=long_ago)
        reap()
        self.cloud.run()
        invariants.check_empty()
        assert all(agent.guests == {} for agent in self.cloud.agents.values())


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=pytest.mark.deep if seed > FIRST else ()) for seed in range(FIRST, FIRST + (LONG or 2))],
)
def test_everything_at_once(
    shared_cloud: Cloud, alice: RequestContext, settings: Any, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    settings.RECLAIM_INSTANCE_INTERVAL, settings.RESIZE_CONFIRM_WINDOW = seed % 2, 1
    settings.SHELVED_OFFLOAD_TIME = (0, -1, 1)[seed % 3]
    for name in ("kelvin", "ohm"):
        shared_cloud.add_host(name, vcpus=8, memory_mb=10240)
    for resource, limit in (("instances", 8), ("cores", 16), ("ram", 16384), ("ports", 20), ("fixed_ips", 18)):
        set_limit(alice.project_id, resource, limit)
    crowd = Crowd(shared_cloud, seed)
    with caplog.at_level(logging.ERROR):
        crowd.run(40 if LONG else 15)
        crowd.end()
    bugs = [record for record in caplog.records if record.levelno >= logging.ERROR and record.exc_info]
    assert not bugs, [str(record.exc_info) for record in bugs]
