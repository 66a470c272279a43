"""Terraform's provider aws and Ansible's amazon.aws: they find what they created unchanged, and change it in place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.one_machine import OneMachine
from tools.bench.cloud import BenchError
from tools.conformance.aws import ansible, terraform
from tools.conformance.aws.account import Account

pytestmark = [pytest.mark.deep, pytest.mark.compat, pytest.mark.timeout(1800)]


@pytest.fixture
def account(simulated: OneMachine) -> Iterator[Account]:
    made = simulated.openstack_json("ec2", "credentials", "create")
    keys = (str(made["access"]), str(made["secret"]))
    yield Account(f"{simulated.url}/ec2/", "RegionOne", *keys, "novella-guest*", 2, ("m1.nano", "m1.tiny"))
    simulated.openstack("ec2", "credentials", "delete", keys[0])


def test_terraform_has_nothing_to_do_after_each_apply(account: Account, tmp_path: Path) -> None:
    try:
        terraform.program()
        plugins = terraform.mirror(terraform.MIRRORS)
    except BenchError as error:
        pytest.skip(str(error))
    assert terraform.check(account, tmp_path, plugins) == []


def test_a_playbook_changes_nothing_the_second_time(account: Account, tmp_path: Path) -> None:
    assert ansible.check(account, tmp_path) == []
