"""Passwords in commands: encrypted in the records, in clear only on the link."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from compute_agent.contract.commands import BuildRequest, PasswordRequest
from provisioning.common.context import RequestContext
from provisioning.compute.actions.power import ChangePassword
from provisioning.compute.models import Instance
from provisioning.compute.records import passwords
from provisioning.hosts.models import HostCommand
from provisioning.identity.models import KeyRecord
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


@pytest.fixture
def key_folder(cloud: Cloud, settings: Any, tmp_path: Path) -> Iterator[Path]:
    """Credential keys of this test alone; whoever looks at the cloud afterwards finds no record of them."""
    settings.CREDENTIAL_KEYS_DIR = tmp_path / "keys"
    yield tmp_path / "keys"
    KeyRecord.objects.all().delete()


def test_a_new_password_is_sealed_until_it_is_sent(
    cloud: Cloud, alice: RequestContext, settings: Any, key_folder: Path
) -> None:
    agent = cloud.add_host("h1")
    server = cloud.launch(alice)
    cloud.run()
    Instance.objects.filter(id=server.id).update(image_properties={"hw_qemu_guest_agent": "yes"})
    ChangePassword.begin(alice, server.id, PASSWORD)
    assert PASSWORD not in kept()
    shutil.move(settings.CREDENTIAL_KEYS_DIR, key_folder.with_name("away"))
    assert agent.take(acknowledge=False) == [], "without the key the order ends with its deadline"
    shutil.move(key_folder.with_name("away"), settings.CREDENTIAL_KEYS_DIR)
    (order,) = agent.take()
    assert isinstance(order.body, PasswordRequest)
    assert order.body.password == PASSWORD


@pytest.mark.slow
def test_new_keys_take_over_the_passwords_that_are_on_their_way(
    cloud: Cloud, alice: RequestContext, settings: Any, key_folder: Path
) -> None:
    agent = cloud.add_host("h1")
    server = cloud.launch(alice, admin_password=PASSWORD)
    drain()
    sent = kept()
    call_command("rotate_credential_keys", "--keep", "1")
    assert [path.name for path in settings.CREDENTIAL_KEYS_DIR.iterdir()] == ["2"]
    assert kept() != sent
    assert PASSWORD not in kept()
    assert passwords.opened(Instance.objects.get(id=server.id)) == PASSWORD
    again = kept()
    call_command("rotate_credential_keys")
    call_command("rotate_credential_keys")
    assert kept() != again
    (order,) = agent.take()
    assert isinstance(order.body, BuildRequest)
    assert order.body.instance.admin_password == PASSWORD


def test_no_key_goes_while_there_is_a_password_that_none_opens(
    cloud: Cloud, alice: RequestContext, settings: Any, key_folder: Path
) -> None:
    cloud.add_host("h1")
    server = cloud.launch(alice, admin_password=PASSWORD)
    drain()
    shutil.rmtree(settings.CREDENTIAL_KEYS_DIR)
    (command,) = HostCommand.objects.filter(finished_at=None)
    for _ in range(2):
        with pytest.raises(CommandError) as refusal:
            call_command("rotate_credential_keys", "--keep", "1")
        assert str(server.id) in str(refusal.value)
        assert str(command.id) in str(refusal.value)
    assert sorted(path.name for path in settings.CREDENTIAL_KEYS_DIR.iterdir()) == ["1", "2", "3"]
