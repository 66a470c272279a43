"""The doctor beside a cloud at work: it finds nothing, its repairs hurt nothing, and two doctors are as good as one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.power import Stop
from provisioning.compute.models import Instance
from provisioning.compute.states import VmState
from provisioning.doctor.examinations import examination
from provisioning.doctor.examinations.examination import treat
from provisioning.doctor.finding import Finding
from provisioning.hosts.models import Host
from provisioning.jobs.models import WorkerBeat
from provisioning.quotas.models import QuotaUsage
from tests.support import invariants
from tests.support.clouds import Cloud, context
from tests.support.jobs import drain

pytestmark = pytest.mark.both_databases("locks")

ROUNDS = 3


def apart(work: Callable[[], object]) -> Callable[[], object]:
    """Do it in a thread with a connection of its own."""

    def run() -> object:
        try:
            return work()
        finally:
            connection.close()

    return run


class Progress:
    """How far the work is.  Two looks of the doctor lie some steps apart, not a time: whatever a step has begun, the
    next one has ended.
    """

    def __init__(self) -> None:
        self.over = False
        self._steps = 0
        self._moved = threading.Condition()

    def step(self, work: Callable[[], object]) -> None:
        work()
        with self._moved:
            self._steps += 1
            self._moved.notify_all()

    def end(self) -> None:
        with self._moved:
            self.over = True
            self._moved.notify_all()

    def wait(self) -> None:
        """Wait until two more steps were done, or all of them."""
        with self._moved:
            until = self._steps + 2
            assert self._moved.wait_for(lambda: self.over or self._steps >= until, 600)


@pytest.mark.slow
def test_a_cloud_at_work_is_well_and_stays_so(shared_cloud: Cloud) -> None:
    for name in ("one", "two"):
        shared_cloud.add_host(name, vcpus=32, memory_mb=65_536, disk_gb=200)
    WorkerBeat.objects.create(name="m:b:1", topics="scheduler", beat_at=timezone.now() + timedelta(days=1))
    progress, result = Progress(), list[Finding]()

    def examine() -> None:
        while not progress.over:
            findings = examination.examine(wait=lambda _: progress.wait())
            treat(findings, repair=True)
            result.extend(findings)

    def work() -> None:
        try:
            for _ in range(ROUNDS):
                rows = [shared_cloud.launch(context("alice")) for _ in range(3)]
                progress.step(shared_cloud.run)
                Stop.begin(context("alice"), rows[0].id)
                delete(context("alice"), rows[1].id)
                progress.step(shared_cloud.run)
                delete(context("alice"), rows[0].id)
            progress.step(shared_cloud.run)
        finally:
            progress.end()

    with ThreadPoolExecutor(3) as pool:
        done = [pool.submit(apart(each)) for each in (work, examine, examine)]
        for each in done:
            each.result()
    assert [str(each) for each in result] == []
    assert Instance.objects.filter(vm_state=VmState.ACTIVE).count() == ROUNDS
    drain()
    invariants.check()


def test_two_doctors_mend_what_is_wrong_once(shared_cloud: Cloud) -> None:
    shared_cloud.add_host("one")
    for _ in range(2):
        shared_cloud.launch(context("alice"))
    shared_cloud.run()
    Host.objects.update(vcpus_allocated=7)
    QuotaUsage.objects.filter(resource="cores").update(in_use=9)
    barrier = threading.Barrier(2)

    def repair_all() -> None:
        findings = examination.examine(["host_counters", "quota"], pause=0)
        barrier.wait(300)
        treat(findings, repair=True)

    with ThreadPoolExecutor(2) as pool:
        for each in [pool.submit(apart(repair_all)) for _ in range(2)]:
            each.result()
    assert Host.objects.get().vcpus_allocated == 2
    assert examination.examine(["host_counters", "quota"], pause=0) == []
