"""TPMs of guests: where state and keys are, without swtpm itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from compute_agent.virt.libvirt.tpm import Tpm


def test_state_and_key_go_to_another_host(tmp_path: Path) -> None:
    first, second = (Tpm(tmp_path / name / "tpm", tmp_path / f"keys-{name}/guest", tmp_path, None) for name in "ab")
    for tpm in (first, second):
        tpm.folder.parent.mkdir()
        tpm.make()
    (first.folder / "state/tpm2-00.permall").write_bytes(b"sealed")
    (first.folder / "state/.lock").touch()
    (second.folder / "state/tpm2-00.volatilestate").write_bytes(b"of an earlier try")
    assert first.read() == {"tpm2-00.permall": b"sealed"}
    second.restore(first.read(), first.key.read_text())
    assert (second.read(), second.key.read_text()) == ({"tpm2-00.permall": b"sealed"}, first.key.read_text())
    kept = second.folder / "state/tpm2-00.permall"
    assert (kept.stat().st_mode & 0o777, second.key.stat().st_mode & 0o777) == (0o600, 0o600)


def test_a_link_in_the_state_is_not_followed(tmp_path: Path) -> None:
    tpm = Tpm(tmp_path / "tpm", tmp_path / "keys/guest", tmp_path, None)
    tpm.make()
    (tpm.folder / "state/tpm2-00.permall").symlink_to(tpm.key)
    with pytest.raises(OSError, match="symbolic link"):
        tpm.read()


def test_state_and_key_are_made_once_and_the_key_goes_first(tmp_path: Path) -> None:
    folder, key = tmp_path / "guest/tpm", tmp_path / "tpm-keys/guest"
    folder.parent.mkdir()
    tpm = Tpm(folder, key, tmp_path / "socket", None)
    tpm.make()
    first = key.read_text()
    assert len(bytes.fromhex(first)) == 32
    assert (key.stat().st_mode & 0o777, key.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert (folder / "state").stat().st_mode & 0o777 == 0o700
    (folder / "state/tpm2-00.permall").write_bytes(b"of the guest")
    tpm.make()
    assert key.read_text() == first
    assert (folder / "state/tpm2-00.permall").exists()
    tpm.remove()
    tpm.remove()
    assert not key.exists()
