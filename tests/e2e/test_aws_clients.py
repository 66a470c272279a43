"""Terraform's provider aws and Ansible's amazon.aws: what they describe stays as it is, and a change is a change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.one_machine import CHECKOUT, ENVIRONMENT, OneMachine
from tools.bench.cloud import BenchError
from tools.conformance.aws.ansible import PROGRAMS, changed
from tools.conformance.aws.steps import Step, run
from tools.conformance.aws.terraform import MIRRORS, mirror, planned_nothing, program

pytestmark = [pytest.mark.deep, pytest.mark.compat, pytest.mark.timeout(1800)]
EXAMPLES = Path(__file__).parent / "aws"


@pytest.fixture
def variables(simulated: OneMachine, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a client of the cloud."""
    made = simulated.openstack_json("ec2", "credentials", "create")
    url = f"{simulated.url}/ec2/"
    yield ENVIRONMENT | {
        "HOME": str(tmp_path),
        "AWS_ACCESS_KEY_ID": str(made["access"]),
        "AWS_SECRET_ACCESS_KEY": str(made["secret"]),
        "AWS_REGION": "RegionOne",
        "AWS_ENDPOINT_URL": url,
        "AWS_EC2_METADATA_DISABLED": "true",
        "TF_VAR_endpoint": url,
        "LC_ALL": "C.UTF-8",
    }
    simulated.openstack("ec2", "credentials", "delete", str(made["access"]))


def test_terraform_has_nothing_to_do_after_each_apply(variables: dict[str, str], tmp_path: Path) -> None:
    try:
        terraform, plugins = program(), mirror(MIRRORS)
    except BenchError as error:
        pytest.skip(str(error))
    shutil.copy(EXAMPLES / "main.tf", tmp_path)
    settings = tmp_path / "terraform.rc"
    settings.write_text(f'provider_installation {{\n  filesystem_mirror {{\n    path = "{plugins}"\n  }}\n}}\n')
    options = ("-input=false", "-no-color")

    def step(name: str, *words: str) -> Step:
        return Step(
            name, (terraform, name, *options, *words), wrong=planned_nothing if name == "plan" else lambda _: ""
        )

    changed_in_place = "-var=change=true"
    steps = [
        step("init"),
        step("apply", "-auto-approve"),
        step("plan", "-json"),
        step("apply", "-auto-approve", changed_in_place),
        step("plan", "-json", changed_in_place),
    ]
    environment = variables | {"TF_CLI_CONFIG_FILE": str(settings), "CHECKPOINT_DISABLE": "1"}
    assert run(steps, tmp_path, environment, always=[step("destroy", "-auto-approve", changed_in_place)]) == []


def test_a_playbook_changes_nothing_the_second_time(variables: dict[str, str], tmp_path: Path) -> None:
    interpreter = json.dumps({"ansible_python_interpreter": str(CHECKOUT / ".venv/bin/python")})
    command = (str(PROGRAMS / "ansible-playbook"), "-i", "localhost,", "-c", "local", "-e", interpreter)
    some = changed(lambda number: number > 0, "the first run changes something")
    none = changed(lambda number: number == 0, "the second run changes nothing")
    steps = [
        Step(f"{name} {what}", (*command, str(EXAMPLES / f"{name}.yml")), wrong=wrong)
        for name in ("site", "remove")
        for what, wrong in (("first", some), ("again", none))
    ]
    environment = variables | {"ANSIBLE_HOME": str(tmp_path / "ansible"), "ANSIBLE_NOCOLOR": "1"}
    assert run(steps, tmp_path, environment) == []
