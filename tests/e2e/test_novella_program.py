"""The command ``novella`` as bin/up installs it, with the files that bin/up and the dashboard give out."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from portal.client import errors
from tests.support.one_machine import CHECKOUT, ENVIRONMENT, PATIENCE, OneMachine

pytestmark = pytest.mark.compat
PROGRAM = CHECKOUT / ".venv/bin/novella"
SAID = "novella: A simulated guest has no open ports, so port 22 cannot be reached."


@pytest.fixture(scope="module")
def server(simulated: OneMachine) -> Iterator[str]:
    options = ["--image", "novella-guest", "--flavor", "m1.nano", "--network", "demo-net"]
    made = simulated.openstack_json("server", "create", *options, "--wait", "a server")
    yield str(made["id"])
    simulated.openstack("server", "delete", "--wait", str(made["id"]))


def test_it_signs_in_with_bin_ups_own_file(simulated: OneMachine, server: str) -> None:
    for target, code in (("a server:22", errors.NOT_READY), (f"{server}:22", errors.NOT_READY), ("b:22", 4)):
        done = subprocess.run(
            [PROGRAM, "tunnel", "--os-cloud", "demo", target, "--stdio"],
            env=ENVIRONMENT | {"OS_CLIENT_CONFIG_FILE": str(simulated.data / "clouds.yaml")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (done.stdout, done.returncode) == ("", code), done.stderr
        assert done.stderr.strip() == (SAID if code == errors.NOT_READY else "novella: There is no server b.")


@pytest.mark.deep
def test_it_asks_for_the_password_that_the_dashboards_file_lacks(
    simulated: OneMachine, server: str, tmp_path: Path
) -> None:
    clouds = yaml.safe_load((simulated.data / "clouds.yaml").read_text())
    password = clouds["clouds"]["demo"]["auth"].pop("password")
    (tmp_path / "clouds.yaml").write_text(yaml.safe_dump(clouds))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", PROGRAM, "tunnel", "--os-cloud", "demo", f"{server}:22", "--stdio"],
        env=ENVIRONMENT | {"OS_CLIENT_CONFIG_FILE": str(tmp_path / "clouds.yaml")},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    output = b""
    with suppress(OSError):  # the terminal's end, when the program has gone
        while piece := os.read(ours, 1000):
            output += piece
            if output.endswith(b"assword: "):
                os.write(ours, password.encode() + b"\n")
    os.close(ours)
    assert process.wait(PATIENCE) == errors.NOT_READY
    assert SAID in output.decode()
    assert password not in output.decode()
