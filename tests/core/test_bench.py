"""The benchmark says what it does; its figures are for people, so none is tested."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client

from provisioning.identity.services.ec2 import create_ec2_credential
from tests.support.cast import People
from tests.support.guest_image import guest_image
from tools.bench.faces import ec2
from tools.bench.networking.rows import judged, sums
from tools.bench.volumes import guest
from tools.bench.volumes.command import WORDS, answer, bare_command, beside, throughput_rows
from tools.ec2_client import PATH, Ec2Keys, read

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_bench_explains_itself() -> None:
    output = subprocess.run(
        [sys.executable, str(CHECKOUT / "bin/libexec"), "tools.bench", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "--launches" in output
    assert "--real-launches" in output


@pytest.mark.slow
def test_bench_refuses_what_it_does_not_know() -> None:
    done = subprocess.run(
        [sys.executable, str(CHECKOUT / "bin/libexec"), "tools.bench", "--quick"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--quick" in done.stderr


def code_in_strings() -> Iterator[tuple[str, str]]:
    """Each ``from … import …`` of ours inside a string that a program hands to ``manage.py shell``."""
    for path in (CHECKOUT / "tools").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from re.findall(r"from ((?:provisioning|portal)[\w.]*) import (\w+)", node.value)


@pytest.mark.slow
def test_what_measurements_import_is_there() -> None:
    result = set(code_in_strings())
    assert ("provisioning.quotas.services.limits", "set_limit") in result
    for module, name in result:
        assert hasattr(importlib.import_module(module), name), f"{module} has no {name}"


def test_a_goal_is_met_or_missed_by_the_95th_percentile() -> None:
    seconds = [number / 1000 for number in range(1, 101)]
    assert judged("a rule", seconds, 0.095).goal.endswith("95 ms: met")
    assert judged("a rule", seconds, 0.094).goal.endswith("94 ms: missed")
    assert sorted(sums([1, 2], [10, 20])) == [11, 12, 21, 22]


@pytest.mark.slow
@pytest.mark.libvirt
@pytest.mark.deep
def test_networking_is_measured_in_a_tiny_size() -> None:
    """What needs a cloud of its own is tried on that of ``tests/e2e/test_several_hosts.py``."""
    if os.geteuid() != 0:
        pytest.skip("needs root: bridges and namespaces")
    command = [sys.executable, str(CHECKOUT / "bin/libexec"), "tools.bench", "network", "--quick"]
    done = subprocess.run(
        [*command, "--only", "host", "--only", "addresses"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()
    assert [line for line in rows if " ms" not in line] == []
    assert sum("12 launches' addresses in 12 simultaneous threads" in line for line in rows) == 2
    share = "network's share of a launch, address and host,"
    with_a_goal = [line.split("  ")[0] for line in rows if re.search(r" ms: (met|missed)$", line)]
    assert with_a_goal == [f"{share} SQLite", f"{share} PostgreSQL"]
    assert len(rows) == 7 + 4 + 2


def test_the_throughput_of_a_volume_is_met_or_missed_beside_the_bare_one(tmp_path: Path) -> None:
    """From what guests say; the first turn, which fills the disk, does not count."""
    log = tmp_path / "console.log"
    log.write_text("Linux\n+measured 0 1.00 9.00 9.50 9.60 9.70\n+measured 1 10.00 11.00 12.00 13.00 15.00\n")
    result = guest.figures(log, 1)
    assert result == {"sequential write": [64], "sequential read": [64], "4 KiB write": [2], "4 KiB read": [1]}
    rows = throughput_rows(result, {**result, "4 KiB read": [1.2]})
    assert [row.goal.rsplit(" ", 1)[1] for row in rows] == ["met", "met", "met", "missed"]
    assert beside([0.3, 0.2, 0.1], [0.1]).endswith("bare 100 ms, 2.0 times as long")


def test_two_faces_are_asked_in_turns_after_a_first_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []
    monkeypatch.setattr(ec2, "seconds", lambda ask: ask() or len(sent) / 1000)
    calls = [lambda: sent.append("ec2"), lambda: sent.append("compute")]
    rows = ec2.rows(("RunInstances", "POST /servers"), 2, lambda: calls[0], lambda: calls[1])
    assert sent == ["compute", "ec2", "ec2", "compute", "compute", "ec2"]
    assert rows[0].measured == "median 4.5 ms, p95 6.0 ms (n=2), 1.00 times"
    assert [row.goal for row in rows] == ["at most 2 times: met", ""]


@pytest.mark.slow
def test_what_the_tools_ask_of_ec2_is_signed_for_it(people: People) -> None:
    keys = Ec2Keys(80, *create_ec2_credential(people.alice.user, people.alice.project))
    signed = keys.signed("DescribeRegions", {"RegionNames": ["RegionOne"]})
    headers = dict(signed.headers) | {"Host": "127.0.0.1:80"}
    answer = Client().post(PATH, signed.body, content_type=headers.pop("Content-Type"), headers=headers)
    assert read("DescribeRegions", answer.status_code, answer.content)["Regions"][0]["RegionName"] == "RegionOne"


@pytest.mark.slow
@pytest.mark.libvirt
def test_volumes_are_measured_without_novella() -> None:
    """The whole of it needs a cloud of its own: ``bin/bench volumes -n 1``."""
    if os.geteuid() != 0:
        pytest.skip("needs root: namespaces")
    done = bare_command(guest_image().path, 1)
    assert {what for what, seconds in answer(done).items() if all(each > 0 for each in seconds)} == set(WORDS)
