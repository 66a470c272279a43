"""A host that was forgotten while its agent is still linked."""

from __future__ import annotations

import uuid

import pytest

from compute_agent.contract.messages import Hello, Ownership, Refused
from portal.agents import link
from provisioning.compute.services.hosts import forget_host
from provisioning.hosts import liveness
from provisioning.hosts.models import Host
from tests.agent_link.test_link import CREDENTIAL, PATH, connect, enrol, hear, tell
from tests.support.clouds import ADMIN, context
from tests.support.sockets import Open, in_db


@pytest.mark.django_db(transaction=True)
async def test_its_link_ends_and_its_credential_opens_no_other(open_socket: Open) -> None:
    host = await enrol(open_socket)
    socket = await connect(open_socket, host)
    await in_db(forget_host)(context("operator", ADMIN), host.id)
    assert await socket.closed() == link.REPLACED
    assert not await in_db(Host.objects.exists)()
    credential = CREDENTIAL + host.name
    again = await open_socket(PATH, authorization=f"Bearer {credential}", x_novella_host=host.name)
    await tell(again, Hello(host=host.name))
    refused = await hear(again)
    assert isinstance(refused, Refused)
    assert refused.final
    assert not await in_db(Host.objects.exists)()


@pytest.mark.django_db(transaction=True)
async def test_the_link_of_a_host_that_is_forgotten_while_it_is_let_in_ends(
    open_socket: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = await enrol(open_socket)
    ownership = liveness.ownership

    def forgotten_meanwhile(host_id: uuid.UUID) -> Ownership:
        forget_host(context("operator", ADMIN), host_id)
        return ownership(host_id)

    monkeypatch.setattr(liveness, "ownership", forgotten_meanwhile)
    socket = await connect(open_socket, host)
    assert await socket.closed() == link.REPLACED
