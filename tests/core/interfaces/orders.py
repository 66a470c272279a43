"""What the tests do to interfaces of a server, and what they look at."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from compute_agent.contract.messages import Command
from provisioning.compute.actions.interfaces import attach_interface, detach_interface
from provisioning.compute.host_link.guest_spec import guest_spec
from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.models import Instance, InstanceAction
from provisioning.hosts.models import HostCommand
from provisioning.network.models import Port
from provisioning.quotas import selectors as quota_selectors
from tests.support.clouds import Cloud, context
from tests.support.scripted_agent import ScriptedAgent

LATE = timedelta(seconds=1)


def attach(instance: Instance, **wanted: str) -> str:
    return str(attach_interface(context("alice"), instance.id, NetworkRequest(**wanted)))


def detach(instance: Instance, port: str) -> None:
    detach_interface(context("alice"), instance.id, port)


def interfaces(instance: Instance) -> list[str]:
    return [str(port.id) for port in Port.objects.filter(device_id=instance.id).order_by("device_index")]


def ports_of_guest(instance: Instance) -> list[str]:
    """The interfaces as the next order would name them."""
    return [port.id for port in guest_spec(Cloud.fresh(instance)).ports]


def ports_held() -> int:
    project = context("alice").project_id
    assert project is not None
    return quota_selectors.usage_of(project)["ports"]


def ends(instance: Instance, action: str) -> list[tuple[bool, str | None]]:
    rows = InstanceAction.objects.filter(instance=instance, action=action).order_by("id")
    return [(row.finished_at is not None, row.message) for row in rows]


def fail(agent: ScriptedAgent, order: Command, code: str = "host_failed") -> None:
    agent.report(order, "failed", error_code=code, message="It does not fit.", retryable=False)


def pass_deadlines() -> None:
    HostCommand.objects.filter(finished_at=None).exclude(deadline=None).update(deadline=timezone.now() - LATE)
