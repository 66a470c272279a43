"""The doctor beside a cloud at work: it finds nothing, its repairs hurt nothing, and two doctors are as good as one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.power import stop
from provisioning.compute.models import Instance
from provisioning.compute.states import VmState
from provisioning.doctor import examination
from provisioning.doctor.examination import treat
from provisioning.doctor.finding import Finding
from provisioning.hosts.models import Host
from provisioning.jobs.models import WorkerBeat
from provisioning.quotas.models import QuotaUsage
from tests.support import invariants
from tests.support.clouds import Cloud, context
from tests.support.jobs import drain

pytestmark = pytest.mark.both_databases

ROUNDS = 4


def apart(work: Callable[[], object]) -> Callable[[], object]:
    """Do it in a thread with a connection of its own."""

    def run() -> object:
        try:
            return work()
        finally:
            connection.close()

    return run


@pytest.mark.slow
def test_a_cloud_at_work_is_well_and_stays_so(shared_cloud: Cloud, settings: Any) -> None:
    settings.HOST_DOWN_AFTER = 86_400  # nobody beats here, however long it takes
    for name in ("one", "two"):
        shared_cloud.add_host(name, vcpus=32, memory_mb=65_536, disk_gb=200)
    WorkerBeat.objects.create(name="m:b:1", topics="scheduler", beat_at=timezone.now() + timedelta(days=1))
    over, found = threading.Event(), list[Finding]()

    def examine() -> None:
        while not over.is_set():
            said = examination.examine(pause=0.05)
            treat(said, repair=True)
            found.extend(said)

    def work() -> None:
        try:
            for _ in range(ROUNDS):
                rows = [shared_cloud.launch(context("alice")) for _ in range(3)]
                shared_cloud.run()
                stop(context("alice"), rows[0].id)
                delete(context("alice"), rows[1].id)
                shared_cloud.run()
                delete(context("alice"), rows[0].id)
            shared_cloud.run()
        finally:
            over.set()

    with ThreadPoolExecutor(3) as pool:
        done = [pool.submit(apart(each)) for each in (work, examine, examine)]
        for each in done:
            each.result()
    assert [str(each) for each in found] == []
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

    def mend() -> None:
        said = examination.examine(["host_counters", "quota"], pause=0)
        barrier.wait(300)
        treat(said, repair=True)

    with ThreadPoolExecutor(2) as pool:
        for each in [pool.submit(apart(mend)) for _ in range(2)]:
            each.result()
    assert Host.objects.get().vcpus_allocated == 2
    assert examination.examine(["host_counters", "quota"], pause=0) == []
