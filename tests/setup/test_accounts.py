"""The accounts that bin/up makes: by the system's own programs, which are stood in for here."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

import pytest

from up import accounts


class Machine:
    """A machine's users in a file; ``useradd`` and ``usermod`` write down how they were called."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, refusals: int = 0) -> None:
        self.log, self._refusals, self._folder = folder / "log", folder / "refusals", folder
        self._refusals.write_text("x" * refusals)
        for name in ("useradd", "usermod"):
            self._program(name)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        monkeypatch.setattr(pwd, "getpwnam", self.look_up)
        monkeypatch.setattr(accounts, "PAUSE", 0.0)

    def _program(self, name: str) -> None:
        path = self._folder / name
        path.write_text(
            f'#!/bin/sh\nif [ -s {self._refusals} ]; then echo "cannot lock /etc/passwd" >&2; '
            f'truncate -s -1 {self._refusals}; exit 1; fi\necho "{name} $*" >>{self.log}\n'
        )
        path.chmod(0o755)

    @property
    def calls(self) -> list[list[str]]:
        return [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def look_up(self, name: str) -> pwd.struct_passwd:
        if not any(call[0] == "useradd" and call[-1] == name for call in self.calls):
            raise KeyError(name)
        return pwd.struct_passwd((name, "x", 900, 900, "", "/nonexistent", "/usr/sbin/nologin"))


def test_an_account_is_made_once_and_cannot_sign_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch)
    for _ in range(2):
        assert accounts.ensure("novella-guests").pw_uid == 900
    (call,) = machine.calls
    assert "--system" in call
    assert call[call.index("--shell") + 1] == "/usr/sbin/nologin"


def test_another_program_that_changes_users_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch, refusals=3)
    assert accounts.ensure("novella-guests").pw_name == "novella-guests"
    assert len(machine.calls) == 1
    Machine(tmp_path, monkeypatch, refusals=accounts.TRIES)
    with pytest.raises(accounts.AccountError, match="cannot lock /etc/passwd"):
        accounts.ensure("other")


def test_a_machine_without_the_programs_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(tmp_path, monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(accounts.AccountError, match="useradd is not installed"):
        accounts.ensure("novella-guests")


@pytest.mark.parametrize(("mode", "expected"), [(0o660, "kvmgroup"), (0o600, None), (0o666, "kvmgroup")])
def test_guests_may_use_kvm_by_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, expected: str | None
) -> None:
    machine = Machine(tmp_path, monkeypatch)

    class Device:
        def exists(self) -> bool:
            return True

        def stat(self) -> os.stat_result:
            return os.stat_result((mode, 0, 0, 1, 0, 108, 0, 0, 0, 0))

    monkeypatch.setattr(grp, "getgrgid", lambda _: grp.struct_group(("kvmgroup", "x", 108, [])))
    accounts.ensure_agents(Device())  # type: ignore[arg-type]
    created = {call[-1] for call in machine.calls if call[0] == "useradd"}
    assert created == {"novella-guests", "novella-dhcp", "novella-storage"}
    assert [call[call.index("--groups") + 1] for call in machine.calls if call[0] == "usermod"] == (
        [expected] if expected else []
    )
