"""Who guests' QEMU runs as, and what libvirt is told of it."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

import pytest

from compute_agent.settings import AgentSettings
from compute_agent.virt.libvirt import account, qemu_conf
from compute_agent.virt.libvirt.account import ROOT, Account, choose


@pytest.fixture(autouse=True)
def _as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def settings(tmp_path: Path, guest_user: str = "auto", libvirt_uri: str = "embed") -> AgentSettings:
    return AgentSettings(host="h", state_dir=tmp_path, guest_user=guest_user, libvirt_uri=libvirt_uri)


def people(monkeypatch: pytest.MonkeyPatch, **uids: int) -> None:
    def look_up(name: str) -> pwd.struct_passwd:
        uid = {each.replace("_", "-"): number for each, number in uids.items()}[name]
        return pwd.struct_passwd((name, "x", uid, uid, "", "/", "/bin/false"))

    monkeypatch.setattr(pwd, "getpwnam", look_up)


def test_the_account_made_for_guests_goes_before_libvirts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    people(monkeypatch, novella_guests=900, libvirt_qemu=64055)
    assert choose(settings(tmp_path), "qemu") == Account("novella-guests", 900, 900)
    people(monkeypatch, libvirt_qemu=64055)
    assert choose(settings(tmp_path), "qemu").name == "libvirt-qemu"


def test_without_an_account_guests_are_roots_and_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    people(monkeypatch)
    assert choose(settings(tmp_path), "qemu") == ROOT
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    caplog.clear()
    assert choose(settings(tmp_path, "root"), "qemu") == ROOT
    assert caplog.records == []
    with pytest.raises(ValueError, match="no user 'nova'"):
        choose(settings(tmp_path, "nova"), "qemu")


def test_another_libvirt_has_an_account_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    people(monkeypatch, novella_guests=900)
    assert choose(settings(tmp_path, libvirt_uri="qemu:///system"), "qemu") == ROOT


@pytest.mark.parametrize(
    ("mode", "in_group", "may"), [(0o660, True, True), (0o660, False, False), (0o666, False, True)]
)
def test_guests_that_use_kvm_need_an_account_that_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, in_group: bool, may: bool
) -> None:
    people(monkeypatch, novella_guests=900)
    device = tmp_path / "kvm"
    device.touch()
    device.chmod(mode)
    monkeypatch.setattr(account, "DEVICE", device)
    members = ["novella-guests"] if in_group else []
    kvm = grp.struct_group(("kvm", "x", device.stat().st_gid, members))
    monkeypatch.setattr(grp, "getgrall", lambda: [kvm])
    assert choose(settings(tmp_path), "kvm").is_root is not may
    assert not choose(settings(tmp_path), "qemu").is_root


def test_qemu_is_started_with_its_account_and_filters_its_system_calls() -> None:
    conf = qemu_conf.render(Account("novella-guests", 900, 901), ["cpu", "memory"], Path("/run/n/pki")).splitlines()
    assert {'user = "+900"', 'group = "+901"', "seccomp_sandbox = 1"} <= set(conf)
    assert {'cgroup_controllers = [ "cpu", "memory" ]', 'nbd_tls_x509_cert_dir = "/run/n/pki"'} <= set(conf)


@pytest.mark.parametrize(
    ("handed_down", "expected"),
    [("cpuset cpu io memory hugetlb pids\n", ["blkio", "cpu", "cpuset", "memory"]), ("\n", []), (None, [])],
)
def test_control_groups_are_used_where_the_machine_hands_them_down(
    tmp_path: Path, handed_down: str | None, expected: list[str]
) -> None:
    if handed_down is not None:
        (tmp_path / "cgroup.subtree_control").write_text(handed_down)
    assert qemu_conf.controllers(tmp_path) == expected


def test_libvirtd_has_the_groups_of_its_system(tmp_path: Path) -> None:
    assert qemu_conf.controllers_of_libvirtd(tmp_path) == []
    (tmp_path / "cpu").mkdir()
    assert qemu_conf.controllers_of_libvirtd(tmp_path) == ["cpu"]
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io pids\n")
    assert qemu_conf.controllers_of_libvirtd(tmp_path) == ["blkio", "cpu", "cpuset"]
