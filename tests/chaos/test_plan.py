"""The plan of a chaos run is a function of its seed."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tools.chaos import plan as plans
from tools.chaos import whole
from tools.chaos.__main__ import options
from tools.chaos.clients import ec2, networks, volumes
from tools.chaos.faults import faults

CHECKOUT = Path(__file__).resolve().parents[2]


def test_the_same_seed_makes_the_same_plan() -> None:
    assert plans.make(7, 300) == plans.make(7, 300)


def test_another_seed_makes_another_plan() -> None:
    assert plans.make(7, 300).operations != plans.make(8, 300).operations
    assert plans.make(7, 300).faults != plans.make(8, 300).faults


@pytest.mark.slow
@pytest.mark.deep
def test_the_plan_is_the_same_in_every_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    requested = ["tools.chaos", "--plan", "--operations", "120", "--seed", "5"]
    monkeypatch.setattr(sys, "argv", requested)
    whole.show(options())
    first = capsys.readouterr().out
    command = [sys.executable, str(CHECKOUT / "bin/libexec"), *requested]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == first
    assert first.count("\n") == 120 + len(plans.make(5, 120).faults)


@pytest.mark.parametrize(
    ("more", "often", "sent"),
    [
        ("volumes", plans.OF_VOLUMES, volumes.SEND),
        ("ec2", plans.OF_EC2, ec2.SEND),
    ],
)
def test_more_is_asked_of_volumes_or_by_ec2(more: str, often: Sequence[str], sent: Mapping[str, object]) -> None:
    both = plans.make(7, 500, **{more: True}), plans.make(7, 500)
    counts = [sum(each.kind in sent for each in every.operations) for every in both]
    assert counts[0] > 1.5 * counts[1] > 0
    assert set(often) == set(sent)


def test_where_packets_are_sent_more_is_asked_of_networks_and_they_break() -> None:
    plan = plans.make(7, 1000, packets=True)
    of_servers = plans.make(7, 1000)
    assert {fault.kind for fault in plan.faults} == set(faults.MAKE)
    counts = [sum(each.kind in networks.SEND for each in every.operations) for every in (plan, of_servers)]
    assert counts[0] > 2 * counts[1]


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_long_run_has_every_kind_of_fault_and_of_launch(seed: int) -> None:
    plan = plans.make(seed, 1000)
    counts = Counter(fault.kind for fault in plan.faults)
    assert set(counts) == set(plans.FAULTS) == set(faults.MAKE) - set(plans.FAULTS_OF_HOSTS)
    kinds = {operation.kind for operation in plan.operations}
    assert {*networks.SEND, *volumes.SEND, *ec2.SEND} <= kinds
    assert {
        "launch plain",
        "launch from volume",
        "launch several",
        "launch grouped",
        "launch bad",
        "launch over quota",
        "launch ec2",
        "delete",
    } <= kinds
    several = [operation for operation in plan.operations if operation.times > 1]
    assert {"delete", "launch ec2"} <= {operation.kind for operation in several}
    assert any(operation.kind == "delete" and operation.details.get("ec2") for operation in plan.operations)


def test_records_are_lost_in_order_and_nothing_else_changes() -> None:
    plan, lossy = plans.make(5, 100), plans.make(5, 100, losses=[*plans.LOSSES])
    lost = [fault for fault in lossy.faults if fault.kind in plans.LOSSES]
    assert [fault.kind for fault in lost] == [*plans.LOSSES]
    assert len({fault.at for fault in lost}) == len(lost)
    assert lossy.operations == plan.operations
    assert [fault for fault in lossy.faults if fault not in lost] == [*plan.faults]


def test_operations_are_numbered_and_mean_servers_launched_before_by_the_same_client() -> None:
    plan = plans.make(3, 500)
    assert [operation.number for operation in plan.operations] == list(range(1, 501))
    launched: dict[int, int] = {}
    for operation in plan.operations:
        if operation.kind.startswith("launch"):
            launched[operation.number] = operation.lane
        else:
            assert launched[operation.target or 0] == operation.lane


def test_faults_come_in_the_order_of_their_moments() -> None:
    moments = [fault.at for fault in plans.make(4, 400).faults]
    assert moments == sorted(moments)
    assert all(1 <= moment <= 400 for moment in moments)


@pytest.mark.parametrize(
    "given", [["--operations", "0"], ["--hosts", "0"], ["--database", "mysql"], ["--failover"], ["--quick"]]
)
def test_what_it_does_not_know_is_refused(
    given: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["tools.chaos", *given])
    with pytest.raises(SystemExit) as ended:
        options()
    assert ended.value.code == 2
    assert given[0] in capsys.readouterr().err
