"""Whether KVM works is decided by running something on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from compute_agent.virt.libvirt import kvm


@pytest.mark.slow
def test_the_probe_really_runs_a_guest() -> None:
    assert kvm.probe("tcg")
    assert not kvm.probe("no-such-accelerator")


def test_what_was_asked_for_is_taken() -> None:
    assert kvm.choose("kvm") == "kvm"
    assert kvm.choose("qemu") == "qemu"


@pytest.mark.parametrize(("runs", "taken"), [(True, "kvm"), (False, "qemu")])
def test_a_device_counts_only_when_a_guest_runs_on_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, runs: bool, taken: str
) -> None:
    device = tmp_path / "kvm"
    device.touch()
    monkeypatch.setattr(kvm, "DEVICE", device)
    monkeypatch.setattr(kvm, "_processor_virtualises", lambda: True)
    monkeypatch.setattr(kvm, "probe", lambda accelerator: runs and accelerator == "kvm")
    assert kvm.choose("auto") == taken


def test_without_a_device_there_is_no_kvm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kvm, "DEVICE", tmp_path / "kvm")
    assert kvm.choose("auto") == "qemu"
