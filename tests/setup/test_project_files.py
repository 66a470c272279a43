"""What a newcomer and a package manager find in the checkout: locks, README, documentation."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from provisioning.common.environment import DECLARED
from up import run_as

LOCKS = ("build", "agent", "uv", "npm", "base", "client", "libvirt", "dev", "conformance", "docs")
REGISTRY = re.compile(r"https?://|--(extra-)?index-url|--find-links|file://")


def locked(checkout: Path, name: str) -> dict[str, str]:
    text = (checkout / "requirements" / f"{name}.lock").read_text()
    return {result[1].lower(): result[0] for result in re.finditer(r"^([A-Za-z0-9._-]+)==\S+", text, re.MULTILINE)}


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_versions_and_hashes_and_no_registry(checkout: Path, name: str) -> None:
    text = (checkout / "requirements" / f"{name}.lock").read_text()
    assert not REGISTRY.search(text)
    entries = re.split(r"\n(?=[a-zA-Z0-9])", "\n".join(line for line in text.splitlines() if line[0] != "#"))
    for entry in entries:
        assert re.match(r"[A-Za-z0-9._-]+==\S+", entry), entry
        assert "--hash=sha256:" in entry, entry


def test_the_front_end_lock_names_hashes_and_no_registry(checkout: Path) -> None:
    text = (checkout / "package-lock.json").read_text()
    assert '"resolved"' not in text
    held = {name: entry for name, entry in json.loads(text)["packages"].items() if name}
    assert held
    assert all(entry["integrity"].startswith("sha512-") for entry in held.values())
    packages = json.loads((checkout / "package.json").read_text())
    versions = packages["dependencies"] | packages["devDependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions.values())


def test_every_dependency_is_locked(checkout: Path) -> None:
    document = tomllib.loads((checkout / "pyproject.toml").read_text())
    project, groups = document["project"], document["dependency-groups"]
    extras = project["optional-dependencies"]
    pairs = (
        ("base", project["dependencies"]),
        ("libvirt", extras["libvirt"]),
        ("dev", extras["dev"]),
        ("agent", groups["agent"]),
        ("build", groups["build"]),
        ("docs", groups["docs"]),
    )
    for lock, requirements in pairs:
        have = locked(checkout, lock)
        names = {re.split(r"[\[<>=! ]", requirement)[0].lower().replace(".", "-") for requirement in requirements}
        assert names <= set(have), lock


def test_locks_agree_where_they_overlap(checkout: Path) -> None:
    base = locked(checkout, "base")
    for name in ("client", "dev", "agent"):
        other = locked(checkout, name)
        assert {key: other[key] for key in other.keys() & base.keys()} == {
            key: base[key] for key in other.keys() & base.keys()
        }


def test_the_guest_images_tools_are_installed(checkout: Path) -> None:
    builder = [sys.executable, checkout / "bin/libexec", "tools.guest_image", "--packages"]
    packages = subprocess.run(builder, capture_output=True, text=True, check=True).stdout.split()
    script = (checkout / "bin/libexec/environment.sh").read_text()
    needed = {
        word
        for line in re.findall(r'^    need ("[^"]+"|\S+)', script, re.MULTILINE)
        for word in line.strip('"').split()
    }
    assert set(packages) <= needed


def test_the_readme_starts_with_the_two_commands(checkout: Path) -> None:
    readme = (checkout / "README.md").read_text()
    block = re.search(r"```sh\n(.*?)```", readme, re.DOTALL)
    assert block is not None
    assert [line.partition("#")[0].strip() for line in block[1].splitlines()] == ["bin/up", "bin/test"]
    assert block.start() < 600
    assert "docs/images/dashboard.png" in readme


def test_the_numbers_of_the_readme_are_those_of_the_pages(checkout: Path) -> None:
    readme, api, conformance = (
        (checkout / name).read_text() for name in ("README.md", "docs/api.md", "docs/conformance.md")
    )
    services = ("Identity", "Compute", "Image", "Network", "Block Storage", "EC2")
    counted = re.findall(r"^(\d+) (?:calls|actions) of .*?: (\d+) are supported, (\d+) with", api, re.MULTILINE)
    desired = [
        f"{name} {int(same) + int(other)} of {all_}"
        for name, (all_, same, other) in zip(services, counted, strict=True)
    ]
    assert [each for each in desired if each not in readme] == []
    row = re.search(r"^\| all \| ([\d,]+) \| ([\d,]+) \| (\d+) \| (\d+) \| (\d+) \|", conformance, re.MULTILINE)
    assert row is not None
    requested, passed, failed, known, skipped = row.groups()
    assert f"{passed} passed of {requested}; {failed} failed, {known} known differences, {skipped} skipped" in readme


def test_every_setting_is_documented(checkout: Path) -> None:
    guide = "".join((checkout / "docs" / name).read_text() for name in ("operator-guide.md", "settings.md"))
    portal = {*DECLARED, run_as.SETTING}
    options = (checkout / "compute_agent/start/options.py").read_text()
    agent = {f"NOVELLA_AGENT_{name}" for name in re.findall(r'default\("([A-Z_]+)"', options)}
    documented = set(re.findall(r"`(NOVELLA_[A-Z0-9_]+)`", guide))
    assert portal | agent <= documented
    assert documented <= portal | agent, "the guide describes settings that do not exist"


@pytest.mark.slow
def test_the_agent_stands_alone(checkout: Path) -> None:
    """A hypervisor has neither Django nor the other two packages."""
    program = """
import importlib, pkgutil, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"portal", "provisioning", "django", "django_q", "rest_framework", "channels"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import compute_agent
for module in pkgutil.walk_packages(compute_agent.__path__, "compute_agent."):
    if module.name != "compute_agent.__main__":
        importlib.import_module(module.name)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_command_is_documented(checkout: Path) -> None:
    guide = (checkout / "docs/operator-guide.md").read_text()
    commands = [
        path.stem
        for folder in ("portal", "provisioning")
        for path in (checkout / folder).glob("**/management/commands/*.py")
        if path.stem != "__init__"
    ]
    assert commands
    assert [name for name in commands if f"| `{name}` |" not in guide] == []


def imported(path: Path) -> Iterator[str]:
    """Yield the names of modules, and of what may be a module, that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{each.name}" for each in node.names))


def test_no_modules_of_the_programs_import_each_other(checkout: Path) -> None:
    """The contracts of imports are for packages that are found from the checkout."""
    root = checkout / "bin/libexec"
    files = {".".join(path.relative_to(root).with_suffix("").parts): path for path in root.rglob("*.py")}
    assert len(files) > 15
    order = TopologicalSorter({name: set(imported(path)) & files.keys() - {name} for name, path in files.items()})
    order.prepare()  # CycleError names the circle
