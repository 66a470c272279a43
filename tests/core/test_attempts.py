"""Each try of a build is kept with its reason: for the owner without hosts, for operators with their names."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from compute_agent.contract.steps import CREATE_DISK, FETCH_IMAGE, PLUG_NETWORK
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.compute import selectors
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.interfaces import send_refresh
from provisioning.compute.models import Instance
from provisioning.compute.records.host_commands import unfinished
from provisioning.compute.selectors.explained import Attempt, attempts_for
from provisioning.compute.upkeep import reaper
from provisioning.hosts.models import Host
from tests.support.clouds import Cloud, context, state_of
from tests.support.jobs import drain

pytestmark = pytest.mark.django_db

HOSTS = ("kelvin", "ohm", "tesla", "volt")


def brief(tries: list[Attempt]) -> list[tuple[int, str, str, str]]:
    return [(each.number, each.outcome, each.step, each.reason) for each in tries]


def fail_once(cloud: Cloud, instance: Instance, message: str, after: str | None = None) -> str:
    """Let the server's host fail the build in the step behind ``after``; returns the host's name."""
    drain()
    agent = cloud.agent_of(instance)
    agent.fail(agent.take()[-1], message, retryable=True, after=after)
    return agent.host.name


@pytest.mark.slow
def test_every_failed_host_and_its_reason_is_kept_and_reported(
    cloud: Cloud, alice: RequestContext, operator: RequestContext
) -> None:
    for name in HOSTS:
        cloud.add_host(name)
    instance = cloud.launch(alice)
    names = [
        fail_once(cloud, instance, "The disk is full.", FETCH_IMAGE),
        fail_once(cloud, instance, "The image did not come."),
        fail_once(cloud, instance, "QEMU does not start."),
    ]
    assert len(set(names)) == 3, "a host that failed was asked again"
    assert state_of(instance) == ("error", None)
    assert brief(attempts_for(alice, instance.id)) == [
        (1, "failed", CREATE_DISK, "The disk is full."),
        (2, "failed", PLUG_NETWORK, "The image did not come."),
        (3, "failed", PLUG_NETWORK, "QEMU does not start."),
    ]
    assert [each.host for each in attempts_for(alice, instance.id)] == ["", "", ""]
    assert [each.host for each in attempts_for(operator, instance.id)] == names
    fault = selectors.fault_of([cloud.fresh(instance)])[instance.id]
    assert fault.message == (
        "The server could not be built: 3 hosts were tried. The last error: QEMU does not start."
        " Before that: The disk is full; The image did not come."
    )
    assert not [name for name in HOSTS if name in fault.message]
    reasons = ("The disk is full.", "The image did not come.", "QEMU does not start.")
    for number, (name, reason) in enumerate(zip(names, reasons, strict=True), 1):
        assert f"attempt {number} on {name}: {reason}" in fault.details


@pytest.mark.parametrize("hosts", [1, 2])
def test_nothing_more_is_asked_of_a_host_that_failed(cloud: Cloud, alice: RequestContext, hosts: int) -> None:
    for name in HOSTS[:hosts]:
        cloud.add_host(name)
    instance = cloud.launch(alice)
    drain()
    agent = cloud.agent_of(instance)
    (build,) = agent.take()
    send_refresh(cloud.fresh(instance))
    agent.take()  # it has it, and says nothing of it any more
    agent.fail(build, "The disk is full.", retryable=hosts > 1)
    cloud.run()
    assert state_of(instance) == (("active" if hosts > 1 else "error"), None)
    assert not unfinished(instance.id).exists()


@pytest.mark.slow
def test_a_silent_hosts_try_has_a_reason_too(cloud: Cloud, alice: RequestContext) -> None:
    for name in HOSTS[:2]:
        cloud.add_host(name)
    instance = cloud.launch(alice)
    drain()
    silent = cloud.agent_of(instance)
    silent.steps(silent.take()[0], upto=FETCH_IMAGE)
    Instance.objects.filter(id=instance.id).update(task_deadline=timezone.now() - timedelta(seconds=1))
    reaper.reap()
    assert brief(attempts_for(alice, instance.id)) == [
        (1, "failed", CREATE_DISK, "The host did not report within 600 seconds."),
        (2, "under way", "", ""),
    ]
    cloud.run()
    assert [each.outcome for each in attempts_for(alice, instance.id)] == ["failed", "built"]


def test_no_host_left_reports_what_the_failed_ones_reported(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    fail_once(cloud, instance, "The disk is full.")
    Host.objects.update(enabled=False)
    drain()
    message = selectors.fault_of([cloud.fresh(instance)])[instance.id].message
    assert message.startswith("No valid host was found.")
    assert message.endswith("Before that: The disk is full.")
    first, second = attempts_for(alice, instance.id)
    assert (first.outcome, second.outcome, second.step, second.host) == ("failed", "failed", "schedule", "")
    assert second.reason.startswith("No valid host was found.")


def test_a_failure_between_host_and_hand_off_has_its_step(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    cloud.network.subnets.update(allocation_pools=[{"start": "10.20.0.10", "end": "10.20.0.10"}])
    cloud.launch(alice)
    instance = cloud.launch(context("alice"))
    drain()
    assert state_of(instance) == ("error", None)
    (only,) = attempts_for(alice, instance.id)
    assert (only.outcome, only.step) == ("failed", "allocate_network")
    assert only.reason


@pytest.mark.slow
def test_only_this_request_avoids_the_failed_host(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    first = cloud.launch(alice)
    cloud.add_host("ohm", vcpus=1)
    fail_once(cloud, first, "The disk is full.")
    cloud.run()
    assert cloud.agent_of(first).host.name == "ohm"
    second = cloud.launch(context("alice"))
    cloud.run()
    assert state_of(second) == ("active", None)
    assert cloud.agent_of(second).host.name == "kelvin"


def test_on_the_way_built_and_deleted(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    assert brief(attempts_for(alice, instance.id)) == [(1, "under way", "", "")]
    drain()
    assert [each.outcome for each in attempts_for(alice, instance.id)] == ["under way"]
    cloud.run()
    (built,) = attempts_for(alice, instance.id)
    assert (built.outcome, built.attempt) == ("built", 1)
    assert built.started is not None
    assert built.finished is not None
    stopped = cloud.launch(context("alice"))
    drain()
    delete(context("alice"), stopped.id)
    cloud.run()
    operator = context("operator", frozenset({"admin", "member", "reader"}))
    (cancelled,) = attempts_for(operator, stopped.id)
    assert (cancelled.outcome, cancelled.reason) == ("cancelled", "The server was deleted.")


def test_nobody_elses_tries_are_shown(cloud: Cloud, alice: RequestContext, charlie: RequestContext) -> None:
    instance = cloud.launch(alice)
    with pytest.raises(NotFoundError):
        attempts_for(charlie, instance.id)
