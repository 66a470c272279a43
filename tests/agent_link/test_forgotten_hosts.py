"""A host that was forgotten while its agent is still linked."""

from __future__ import annotations

import pytest

from compute_agent.contract.messages import Hello, Refused
from portal.agents import link
from provisioning.compute.services.forget_host import forget_host
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
