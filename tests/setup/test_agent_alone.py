"""A hypervisor of its own: the operator guide's commands bring the agent at locked hashes, without the portal."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

DOCUMENTS = ("*.md", "docs/**/*.md", "templates/**/*.html", "bin/*", "bin/libexec/**/*.py", "bin/libexec/*.sh")


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
        [sys.executable, checkout / "bin/libexec", "guest_image", "--packages"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    installed = set(guide(checkout)[0].replace("\\", " ").split())
    assert needed - set(of_the_guest_image) <= installed


@pytest.mark.slow
def test_the_guides_commands_install_an_agent_that_starts_without_django(checkout: Path, tmp_path: Path) -> None:
    """An empty environment, and a folder with what the repository tracks; nothing else of this machine's Python."""
    listed = subprocess.run(["git", "ls-files"], cwd=checkout, capture_output=True, text=True, check=True).stdout
    copy, prefix = tmp_path / "checkout", tmp_path / "novella"
    for name in listed.splitlines():
        if (checkout / name).is_file() and name.startswith(
            ("pyproject", "README", "LICENSE", "requirements/", "compute_agent/")
        ):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(checkout / name, copy / name)
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("NOVELLA", "PYTHON", "VIRTUAL"))
    }
    environ["PATH"] = f"{Path(sys.base_prefix) / 'bin'}:{os.environ['PATH']}"
    block = guide(checkout)[1]
    assert "/opt/novella" in block
    done = subprocess.run(
        ["sh", "-eu"],
        input=block.replace("/opt/novella", str(prefix)),
        cwd=copy,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    version = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["version"]
    assert done.stdout.splitlines()[-1] == f"novella-agent {version}"
    program = (
        "from importlib.util import find_spec; import compute_agent.host, libvirt;"
        " print([find_spec(name) for name in ('django', 'channels')])"
    )
    alone = subprocess.run(
        [prefix / "bin/python", "-c", program], cwd="/", env=environ, capture_output=True, text=True, check=False
    )
    assert alone.stdout.strip() == "[None, None]", alone.stderr
    helped = subprocess.run(
        [prefix / "bin/novella-agent", "--help"], cwd="/", env=environ, capture_output=True, check=False
    )
    assert helped.returncode == 0
