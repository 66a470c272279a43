"""``novella ssh`` into a real guest that no security rule lets anybody in to: portal, agent's link, filters, sshd."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec
from compute_agent.network.fake import FakeNetwork
from compute_agent.network.host_network import Target
from portal.client import errors
from provisioning.compute.models import InstanceActionEvent
from provisioning.network.selectors import port_refs
from tests.host.cast import EGRESS, Wish, network
from tests.host.host_process import HostProcess
from tests.host.lab import Lab, until
from tests.host.test_guest import console, launch
from tests.sockets.test_guest_port_streams import Guest
from tests.sockets.test_novella_command import novella, result_of
from tests.support.cast import People
from tests.support.guest_image import GuestImage
from tests.support.sockets import in_db
from tests.web.conftest import port, serve, usual_server

__all__ = ["port", "serve", "usual_server"]
DATA = os.urandom(1_000_000)


class RealNetwork(FakeNetwork):
    """The network of the laboratory's host, for connections to its guests."""

    def __init__(self, host: HostProcess) -> None:
        super().__init__()
        self._host = host

    def guest_socket(self, instance_id: str, port_id: str, address: str, port: int) -> Target:
        target: Target = self._host.network.guest_socket(instance_id, port_id, address, port)
        return target


@pytest.fixture
async def guest(
    port: int, people: People, lab: Lab, image: GuestImage, key: Path, tmp_path: Path
) -> AsyncIterator[Guest]:
    """Alice's server as it is in the records, and booted on the host of the laboratory."""
    host = HostProcess(lab.settings, lab.machine.path, image.path)
    guest = Guest(port, people, tmp_path)
    guest.network = RealNetwork(host)
    try:
        await guest.start()
        (known,) = await in_db(port_refs)(guest.server.id)
        public = key.with_suffix(".pub").read_text()
        spec = Wish(1, rules=(EGRESS,), network=network(9), image=image.ref, public_key=public).spec()
        (plain,) = spec.ports
        address = replace(plain.fixed_ips[0], address=known.fixed_ips[0].address)
        own = {"id": known.id, "tap": known.tap, "mac_address": known.mac_address}
        interface = replace(plain, fixed_ips=[address], **own)
        spec = replace(spec, uuid=str(guest.server.id), ports=[interface])
        await asyncio.to_thread(boot, host, spec)
        yield guest
    finally:
        await guest.stop()
        host.kill()


def boot(host: HostProcess, spec: InstanceSpec) -> None:
    host.network.init_host()
    host.driver.init_host()
    launch(host, spec)
    until(lambda: "login:" in console(host, spec), "the guest's login prompt")


@pytest.mark.deep
async def test_a_shell_in_a_guest_to_which_no_rule_leads(guest: Guest, key: Path, tmp_path: Path) -> None:
    """What goes in and comes out is whole and ends where it ended; the host key is known by the server's id."""
    options = ["-o", f"UserKnownHostsFile={tmp_path / 'known_hosts'}", "-o", "HashKnownHosts=no", "-o", "BatchMode=yes"]
    process = await novella(guest, "ssh", "web", "--key", str(key), *options, "--", "hostname; sha256sum; exit 3")
    output, complaint, code = await result_of(process, DATA)
    assert (output.split()[:2], code) == ([b"web-1", hashlib.sha256(DATA).hexdigest().encode()], 3), complaint
    assert (tmp_path / "known_hosts").read_text().startswith(f"novella-{guest.server.id} ")
    (step,) = await in_db(lambda: list(InstanceActionEvent.objects.all()))()
    assert (step.name, step.detail["port"]) == ("open_tunnel", "22")
    output, complaint, code = await result_of(await novella(guest, "tunnel", "web:9", "--stdio"))
    assert (output, code) == (b"", errors.NOT_READY)
    assert "does not accept connections" in complaint
