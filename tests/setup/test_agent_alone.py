"""The guides' commands bring the agent and the users' command at locked hashes, each without the control plane."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Installed:
    """An environment that a guide's commands have made."""

    prefix: Path
    environ: dict[str, str]
    said: str

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [self.prefix / "bin" / program, *arguments]
        return subprocess.run(command, cwd="/", env=self.environ, capture_output=True, text=True, check=False)


DOCUMENTS = (
    "*.md",
    "docs/**/*.md",
    "templates/**/*.html",
    "bin/*",
    "bin/libexec/**/*.py",
    "bin/libexec/*.sh",
    "tools/**/*.py",
)


def guide(checkout: Path) -> list[str]:
    """The shell blocks of the guide's section on a hypervisor."""
    section = re.search(
        r"^### A hypervisor of its own\n(.*?)^##",
        (checkout / "docs/operator-guide.md").read_text(),
        re.DOTALL | re.MULTILINE,
    )
    assert section is not None
    return re.findall(r"```sh\n(.*?)```", section[1], re.DOTALL)


def test_no_document_installs_a_package_of_that_name_from_an_index(checkout: Path) -> None:
    looked_at = [path for pattern in DOCUMENTS for path in checkout.glob(pattern) if path.is_file()]
    assert len(looked_at) > 50
    wrong = re.compile(r"pip3? install[^\n`]*\bnovella(-cloud)?(\[|\s|`|$)", re.MULTILINE)
    assert wrong.search("`pip install novella[agent]`")
    assert [path.name for path in looked_at if wrong.search(path.read_text())] == []
    assert tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["name"] == "novella-cloud"


def test_the_agents_lock_has_nothing_of_the_control_plane(checkout: Path) -> None:
    names = set(re.findall(r"^([a-z0-9-]+)==", (checkout / "requirements/agent.lock").read_text(), re.MULTILINE))
    assert {"libvirt-python", "msgspec", "pyroute2", "websockets"} <= names
    assert not names & {"django", "daphne", "channels", "django-q2", "djangorestframework", "psycopg", "twisted"}


def test_the_guide_names_the_system_packages_that_real_guests_need(checkout: Path) -> None:
    script = (checkout / "bin/libexec/environment.sh").read_text()
    function = re.search(r"^needs_of_hypervisor\(\) \{\n(.*?)^\}", script, re.DOTALL | re.MULTILINE)
    assert function is not None
    needed = {
        word
        for line in re.findall(r"^ +need (\"[^\"]+\"|\S+)", function[1], re.MULTILINE)
        for word in line.strip('"').replace("$_python", "python3").split()
    }
    of_the_guest_image = subprocess.run(
        [sys.executable, checkout / "bin/libexec", "tools.guest_image", "--packages"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    installed = set(guide(checkout)[0].replace("\\", " ").split())
    assert needed - set(of_the_guest_image) <= installed


def installed(checkout: Path, folder: Path, block: str, packages: tuple[str, ...], prefix: str) -> Installed:
    """Run a guide's commands in an empty environment and a folder with what the repository tracks, as far as they need
    it; nothing else of this machine's Python.
    """
    listed = subprocess.run(["git", "ls-files"], cwd=checkout, capture_output=True, text=True, check=True).stdout
    copy, into = folder / "checkout", folder / "novella"
    for name in listed.splitlines():
        if (checkout / name).is_file() and name.startswith(
            ("pyproject", "README", "LICENSE", "requirements/", *packages)
        ):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(checkout / name, copy / name)
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("NOVELLA", "PYTHON", "VIRTUAL"))
    }
    environ["PIP_NO_COMPILE"] = "1"  # a third of the time
    environ["PATH"] = f"{Path(sys.base_prefix) / 'bin'}:{os.environ['PATH']}"
    assert prefix in block
    done = subprocess.run(
        ["sh", "-eu"],
        input=block.replace(prefix, str(into)),
        cwd=copy,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return Installed(into, environ, done.stdout)


@pytest.mark.slow
@pytest.mark.deep
def test_the_guides_commands_install_an_agent_that_starts_without_django(checkout: Path, tmp_path: Path) -> None:
    result = installed(checkout, tmp_path, guide(checkout)[1], ("compute_agent/",), "/opt/novella")
    version = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["version"]
    assert result.said.splitlines()[-1] == f"novella-agent {version}"
    program = (
        "from importlib.util import find_spec; import compute_agent.host, libvirt;"
        " print([find_spec(name) for name in ('django', 'channels')])"
    )
    alone = result.run("python", "-c", program)
    assert alone.stdout.strip() == "[None, None]", alone.stderr
    assert result.run("novella-agent", "--help").returncode == 0


@pytest.mark.slow
@pytest.mark.deep
def test_the_users_command_is_installed_without_the_control_plane(checkout: Path, tmp_path: Path) -> None:
    text = (checkout / "docs/user-guide.md").read_text()
    (block,) = [each for each in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) if "client.lock" in each]
    result = installed(checkout, tmp_path, block, ("portal/__init__", "portal/client/"), "~/novella")
    assert "novella ssh ends with the code of ssh." in result.said
    program = "from importlib.util import find_spec; print([find_spec(name) for name in ('django', 'msgspec')])"
    assert result.run("python", "-c", program).stdout.strip() == "[None, None]"
    output = result.run("novella", "tunnel", "web:22", "--stdio")
    assert (output.returncode, output.stdout) == (3, ""), output.stderr
