"""TPMs of guests: where state and keys are, without swtpm itself."""

from __future__ import annotations

from pathlib import Path

from compute_agent.virt.libvirt.tpm import Tpm


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
