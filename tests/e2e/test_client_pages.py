"""The examples of docs/clients work as they stand there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.conftest import Key
from tests.e2e.sdk_proxies import connect
from tests.support.one_machine import CHECKOUT, ENVIRONMENT, PATIENCE, OneMachine

pytestmark = [
    pytest.mark.compat,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]
PAGES = CHECKOUT / "docs/clients"
PROGRAMS = CHECKOUT / ".venv/bin"


@pytest.fixture(scope="module")
def plain(simulated: OneMachine) -> Iterator[OneMachine]:
    """A running cloud as bin/up makes it, with hosts that boot nothing; what the first playbook leaves is deleted."""
    yield simulated
    conn = connect(simulated, name="demo")
    conn.delete_server("ansible-first", wait=True)
    conn.delete_server_group("web")
    conn.delete_keypair("ansible")


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", (PAGES / page).read_text(), re.MULTILINE | re.DOTALL)


def run(cloud: OneMachine, folder: Path, *command: str | Path, **more: str) -> str:
    """Run a program in ``folder`` as somebody who has downloaded clouds.yaml; it must succeed."""
    environment = ENVIRONMENT | {
        "OS_CLIENT_CONFIG_FILE": str(cloud.data / "clouds.yaml"),
        "OS_CLOUD": "demo",
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "HOME": str(folder),
        **more,
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,  # Ansible takes no other one that does not block
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.deep
@pytest.mark.timeout(1800)  # about thirty commands, each a start of the client
def test_the_command_line(plain: OneMachine, tmp_path: Path) -> None:
    result = blocks("openstack.md", "sh")
    assert len(result) == 6
    (tmp_path / "disk.raw").write_bytes(b"\x55" * 65_536)
    output = "".join(run(plain, tmp_path, "bash", "-ec", block) for block in result)
    assert "SHUTOFF" in output
    assert (tmp_path / "id_novella").read_text().startswith("-----BEGIN OPENSSH PRIVATE KEY")


def test_the_sdk(plain: OneMachine, tmp_path: Path) -> None:
    [program] = blocks("sdk.md", "python")
    output = run(plain, tmp_path, sys.executable, "-W", "ignore", "-c", program).splitlines()
    assert output[0].startswith("ACTIVE")
    assert [line.split()[0] for line in output[1:-1]] == ["start", "stop", "create"]
    assert output[-1].startswith("active")


@dataclass
class Playbooks:
    """The page's playbooks in their order, run in a folder of their own."""

    cloud: OneMachine
    folder: Path
    key: Key

    def changes(self, *numbers: int, **more: str) -> int:
        """Run playbooks with extra variables; return how much they have changed."""
        programs, result = CHECKOUT / ".venv/ansible/bin", blocks("ansible.md", "yaml")
        for number in numbers:
            (self.folder / f"{number}.yml").write_text(result[number])
        variables = {"public_key": self.key.public.read_text().strip()} | more
        command = (
            programs / "ansible-playbook",
            *("-i", "localhost,", "-e", f"ansible_python_interpreter={programs / 'python'}"),
            *("-e", json.dumps(variables), *(f"{number}.yml" for number in numbers)),
        )
        settings = {"ANSIBLE_HOME": str(self.folder / "ansible"), "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}
        settings |= {"PYTHONDONTWRITEBYTECODE": ""}  # every task is a process that imports openstacksdk
        output = run(self.cloud, self.folder, *command, **settings)
        return int(re.findall(r"changed=(\d+)", output)[-1])


@pytest.fixture
def playbooks(plain: OneMachine, tmp_path: Path, key: Key) -> Playbooks:
    return Playbooks(plain, tmp_path, key)


@pytest.mark.deep
def test_ansible_makes_servers_once(playbooks: Playbooks) -> None:
    assert playbooks.changes(0) == 3
    assert playbooks.changes(0) == 0


@pytest.mark.deep
def test_ansible_makes_changes_and_removes_networks_once(playbooks: Playbooks) -> None:
    assert playbooks.changes(1, 2) == 18
    assert playbooks.changes(1, 2, about="another word", networks="30") == 5
    assert playbooks.changes(3, 4) == 15
    assert playbooks.changes(4) == 0


@pytest.mark.deep
def test_ansible_gives_a_server_a_volume_and_takes_it_away(playbooks: Playbooks) -> None:
    assert playbooks.changes(5) == 5
    assert playbooks.changes(5, size="2") == 2
    assert playbooks.changes(5, size="2") == 0
    assert playbooks.changes(6) == 5


def test_every_page_is_named_in_the_guide() -> None:
    guide = (CHECKOUT / "docs/user-guide.md").read_text()
    for page in PAGES.glob("*.md"):
        assert f"clients/{page.name}" in guide
