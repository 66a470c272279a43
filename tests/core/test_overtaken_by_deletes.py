"""Commands beside a server's tasks that its removal has overtaken on the host: no sign that records are lost."""

from __future__ import annotations

import pytest

from compute_agent.contract.commands import DestroyRequest, RefreshPortsRequest
from provisioning.common.context import RequestContext
from provisioning.compute.actions.delete import delete
from provisioning.compute.host_link.guest_spec import guest_spec
from provisioning.compute.models import NewerGuest
from provisioning.compute.records import host_commands
from provisioning.hosts.models import HostCommand
from tests.support.clouds import Cloud, context


@pytest.mark.slow
@pytest.mark.parametrize("deleted", [False, True])
def test_a_command_of_the_same_number_is_not_sent_again(cloud: Cloud, alice: RequestContext, *, deleted: bool) -> None:
    agent = cloud.add_host("a")
    server = cloud.running(alice)
    spec = guest_spec(server)
    delete(context("alice"), server.id)
    attempt = cloud.fresh(server).attempt
    host_commands.send(agent.host.id, server.id, attempt, RefreshPortsRequest(instance=spec), None, beside=True)
    removal, beside = sorted(agent.take(), key=lambda each: not isinstance(each.body, DestroyRequest))
    if deleted:
        agent.carry_out(removal)
    agent.report(
        beside, "failed", error_code="superseded", message="Newer.", detail={"generation": str(removal.generation)}
    )
    assert cloud.fresh(server).attempt == attempt
    assert not NewerGuest.objects.exists()
    assert not HostCommand.objects.filter(repeated=True).exists()
    if not deleted:
        agent.carry_out(removal)
