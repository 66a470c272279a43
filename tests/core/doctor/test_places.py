"""What the doctor finds of servers' room on hosts, and of their addresses."""

from __future__ import annotations

import time
import uuid

import pytest
from django.utils import timezone

from compute_agent.contract.samples import HOST_SERIES, Samples
from provisioning.common.context import RequestContext
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.interfaces import detach_interface
from provisioning.compute.actions.power import Stop
from provisioning.compute.launch.retry import retry
from provisioning.compute.models import Allocation, InstanceAction
from provisioning.compute.states import VmState
from provisioning.doctor.examinations.examination import treat
from provisioning.hosts.models import Host, HostCommand
from provisioning.measures import inbound
from provisioning.measures.models import Block, Rejection
from provisioning.measures.resolutions import FINE, HOUR
from provisioning.network.models import Port
from tests.core.doctor.findings import OLD, broken, look, only, repaired
from tests.support import invariants
from tests.support.clouds import Cloud, context
from tests.support.jobs import drain
from tests.support.ports import guest_addresses, guest_ports


@pytest.mark.both_databases("locks")
def test_a_host_that_miscounts(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    assert row.host is not None
    Host.objects.filter(id=row.host_id).update(vcpus_allocated=5, instances_allocated=7)
    finding = only("host_counters")
    assert finding.subject == f"host {row.host.name}"
    assert finding.sentence == (
        "It counts 7 servers with 5 vCPUs, 1024 MiB and 2 GiB; its allocations add up to 1 server with 1 vCPU, 1024 MiB"
        " and 2 GiB."
    )
    repaired("host_counters")


@pytest.mark.slow
def test_room_that_nobody_needs(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    held = Allocation.objects.values().get()
    Host.objects.update(last_seen_at=timezone.now() - OLD)
    delete(context("alice"), row.id)
    Host.objects.update(last_seen_at=timezone.now())
    HostCommand.objects.update(created_at=timezone.now() - OLD, finished_at=timezone.now())
    assert look("allocations") == [], "the reaper has its time"
    broken(row, updated_at=timezone.now() - OLD)
    assert "which is not asked to remove it" in only("allocations").sentence
    repaired("allocations")
    cloud.run()
    assert not Allocation.objects.exists()
    assert held
    invariants.check_empty()


@pytest.mark.slow
def test_room_about_which_nobody_was_ever_asked(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    Host.objects.update(last_seen_at=timezone.now() - OLD)
    delete(context("alice"), row.id)
    assert look("allocations") == []
    HostCommand.objects.all().delete()
    assert "which is not asked to remove it" in only("allocations").sentence
    repaired("allocations")


@pytest.mark.slow
def test_room_of_a_launch_that_looks_for_another_host(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.launch(alice)
    drain()
    fresh = cloud.fresh(row)
    assert fresh.host_id is not None
    retry(fresh, fresh.host_id, "It is silent.", clean=False)
    assert look("allocations") == []
    HostCommand.objects.all().delete()
    assert only("allocations").sentence.startswith("It is building with an allocation on ")
    repaired("allocations")
    cloud.run()
    assert cloud.fresh(row).vm_state == VmState.ACTIVE


def test_a_host_that_gives_more_than_it_has(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    assert row.host is not None
    for column, unit in (("vcpus_total", "vCPUs"), ("memory_mb_total", "MiB"), ("disk_gb_total", "GiB")):
        before = getattr(row.host, column)
        Host.objects.filter(id=row.host_id).update(**{column: 0})
        finding = only("full_hosts")
        assert (finding.subject, unit in finding.sentence) == (f"host {row.host.name}", True)
        Host.objects.filter(id=row.host_id).update(**{column: before})


def test_a_server_that_comes_off_its_shelf_without_room(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    broken(row, vm_state=VmState.SHELVED_OFFLOADED)
    assert look("without_room") == []
    Allocation.objects.all().delete()
    assert only("without_room").subject == f"instance {row.id}"


def test_room_of_another_size(cloud: Cloud, alice: RequestContext) -> None:
    cloud.running(alice)
    Allocation.objects.update(vcpus=3)
    Host.objects.filter(instances_allocated=1).update(vcpus_allocated=3)
    assert only("allocations").sentence.endswith("its flavor specifies 1, 1024 and 2.")
    repaired("allocations")


def test_room_on_another_host(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    broken(row, host=Host.objects.exclude(id=row.host_id).get())
    assert "It is on another host than" in only("allocations").sentence


def test_a_server_without_room(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    Allocation.objects.all().delete()
    Host.objects.filter(id=row.host_id).update(
        vcpus_allocated=0, memory_mb_allocated=0, disk_gb_allocated=0, instances_allocated=0
    )
    assert "without an allocation: others may claim its resources" in only("without_room").sentence
    repaired("without_room")


def test_ports_of_nobody(cloud: Cloud, alice: RequestContext) -> None:
    cloud.running(alice)
    Port.objects.create(
        network=cloud.network, project_id=uuid.uuid4(), mac_address="fa:16:3e:00:00:99", device_id=uuid.uuid4(),
        delete_with_device=True,
    )  # fmt: skip
    assert only("ports").sentence == "1 port with its address is allocated to this server, which has no record."
    assert repaired("ports") == "Released: 1 port."


@pytest.mark.slow
def test_ports_of_a_deleted_server(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    guest_ports().update(device_id=None)
    delete(context("alice"), row.id)
    cloud.run()
    guest_ports().update(device_id=row.id)
    assert "which is in state deleted" in only("ports").sentence
    (treated,) = treat([only("ports")], repair=True)
    assert treated.repaired == "Released: 1 port."
    assert not guest_addresses().exists()


@pytest.mark.slow
def test_ports_of_a_guest_whose_room_is_lost_stay(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    Allocation.objects.filter(instance=row).delete()
    assert look("ports") == []
    findings = look("ports", "without_room", "host_counters")
    treat(findings, repair=True)
    assert look() == []
    assert guest_addresses().filter(port__device_id=row.id).exists()


def test_ports_of_a_server_that_is_on_no_host(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    Allocation.objects.filter(instance=row).delete()
    broken(row, vm_state=VmState.ERROR, host_id=None, launched_at=None)
    assert only("ports").sentence == "1 port with its address is allocated to this server, which is in state error."
    (treated,) = treat([only("ports")], repair=True)
    assert treated.repaired == "Released: 1 port."
    assert not guest_addresses().exists()


def test_interfaces_that_are_not_there(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    guest_ports().all().delete()
    assert only("addresses").sentence == "It has 0 ports, but its record lists 1 interface."
    Port.objects.create(
        network=cloud.network, project_id=row.project_id, mac_address="fa:16:3e:00:00:99", device_id=row.id
    )
    assert only("addresses").sentence.startswith("It has no address")


def test_interfaces_that_are_not_there_while_something_goes_on(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    Stop.begin(context("alice"), row.id)
    assert look("addresses") == []
    guest_ports().all().delete()
    assert only("addresses").sentence == "It has 0 ports, but its record lists 1 interface."
    broken(row, vm_state=VmState.SHELVED_OFFLOADED, task_state=None, task_deadline=None, host=None)
    assert len(look("addresses")) == 1, "the shelved keep theirs"


@pytest.mark.slow
def test_an_interface_that_nobody_takes_out(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    detach_interface(context("alice"), row.id, str(guest_ports().get().id))
    assert look("leaving_ports") == []
    HostCommand.objects.filter(finished_at=None).delete()
    InstanceAction.objects.update(finished_at=timezone.now())
    assert only("leaving_ports").sentence.startswith(f"It is to be detached from the server {row.id}")
    assert repaired("leaving_ports") == "A detach command was sent to its host."
    cloud.run()
    assert not guest_ports().exists()
    invariants.check()


def test_a_host_that_stops_sending_samples(cloud: Cloud) -> None:
    host, now = Host.objects.get(name="one"), time.time()
    assert look("samples") == [], "it may never have sent any"
    sample = Block(subject_id=host.id, resolution=FINE.seconds, width=12, data=b"")
    sample.start = int(now - 2 * HOUR) // FINE.block
    sample.save()
    assert only("samples").subject == "host one"
    inbound.receive(host.id, int(now) // FINE.seconds, Samples(), inbound.Inbox(), now)
    assert look("samples") == []


def test_a_host_whose_samples_are_rejected(cloud: Cloud) -> None:
    inbound.receive(
        Host.objects.get(name="one").id, 1, Samples(host=[-1.0] * len(HOST_SERIES)), inbound.Inbox(), time.time()
    )
    assert "implausible" in only("samples").sentence
    Rejection.objects.update(at=timezone.now() - 2 * OLD)
    assert look("samples") == []
