"""A PostgreSQL server for one file of tests, and tests that are run again on it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.conftest import ROOT, eventually


def _programs() -> Path:
    """Where the newest server's programs are; Debian keeps them out of the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if found:
        return found[-1]
    postgres = shutil.which("postgres")
    if postgres is None:
        pytest.skip("PostgreSQL is not installed (apt install postgresql).")
    return Path(postgres).parent


def _as_postgres() -> dict[str, int]:
    """The server refuses to run as root."""
    if os.getuid() != 0:
        return {}
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        user = pwd.getpwnam("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of an empty server that ends with the tests."""
    programs, user = _programs(), _as_postgres()
    folder = Path(tempfile.mkdtemp(prefix="nv-pg-"))
    if user:
        os.chown(folder, user["user"], user["group"])
    data = folder / "data"
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    initdb = [str(programs / "initdb"), "-D", str(data), "-U", "novella", "-A", "trust", "-E", "UTF8", "--no-sync"]
    subprocess.run(initdb, check=True, capture_output=True, env=environment, cwd=folder, **user)
    process = subprocess.Popen(
        [str(programs / "postgres"), "-D", str(data), "-k", str(folder), "-h", "", "-F", "-N", "300"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        cwd=folder,
        **user,
    )
    try:
        ready = [str(programs / "pg_isready"), "-q", "-h", str(folder)]
        eventually(lambda: subprocess.run(ready, check=False).returncode == 0, "the server is ready")
        yield f"postgres://novella@/postgres?host={folder}"
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(folder)


def run_again(server: str, tests: list[str]) -> None:
    """Run tests on the server; they have to pass."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.jobs.on_postgresql", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env={**os.environ, "TESTS_POSTGRESQL": server},
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
