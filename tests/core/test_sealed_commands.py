"""Passwords in commands: encrypted in the records, in clear only on the link."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from compute_agent.contract.commands import BuildRequest, PasswordRequest
from provisioning.common.context import RequestContext
from provisioning.compute.actions.power import change_password
from provisioning.compute.models import Instance
from provisioning.hosts.models import HostCommand
from tests.support.clouds import Cloud
from tests.support.jobs import drain

PASSWORD = "sesame-open-3"


def kept() -> str:
    return str(list(HostCommand.objects.values()))


def test_the_password_of_a_launch_is_sealed_until_it_is_sent(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("h1")
    cloud.launch(alice, admin_password=PASSWORD)
    drain()
    assert HostCommand.objects.filter(finished_at=None).exists()
    assert PASSWORD not in kept()
    (order,) = agent.take()
    assert isinstance(order.body, BuildRequest)
    assert order.body.instance.admin_password == PASSWORD


def test_a_new_password_is_sealed_until_it_is_sent(
    cloud: Cloud, alice: RequestContext, settings: Any, tmp_path: Path
) -> None:
    settings.CREDENTIAL_KEYS_DIR = tmp_path / "keys"
    agent = cloud.add_host("h1")
    server = cloud.launch(alice)
    cloud.run()
    Instance.objects.filter(id=server.id).update(image_properties={"hw_qemu_guest_agent": "yes"})
    change_password(alice, server.id, PASSWORD)
    assert PASSWORD not in kept()
    shutil.move(settings.CREDENTIAL_KEYS_DIR, tmp_path / "away")
    assert agent.take(acknowledge=False) == [], "without the key the order ends with its deadline"
    shutil.rmtree(settings.CREDENTIAL_KEYS_DIR)
    shutil.move(tmp_path / "away", settings.CREDENTIAL_KEYS_DIR)
    (order,) = agent.take()
    assert isinstance(order.body, PasswordRequest)
    assert order.body.password == PASSWORD
