"""UEFI firmware as the distribution describes it, and the variables of guests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from compute_agent.contract.hardware import DEFAULT, Hardware
from compute_agent.virt.errors import RetryableHostError, UnsupportedError
from compute_agent.virt.libvirt import firmware
from tests.support.tables import check_each

UEFI = replace(DEFAULT, firmware="uefi")
Q35 = replace(UEFI, machine="q35")


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install firmware as Debian does: with keys, without keys, and without Secure Boot."""
    folder, own = tmp_path / "distribution", tmp_path / "operator"
    folder.mkdir()
    own.mkdir()
    monkeypatch.setattr(firmware, "FOLDERS", (folder, own))
    secure = ["acpi-s3", "requires-smm", "secure-boot"]
    for name, size, machines, features in (
        ("40-keys", 200, ["pc-q35-*"], [*secure, "enrolled-keys"]),
        ("50-none", 100, ["pc-q35-*"], secure),
        ("60-plain", 100, ["pc-i440fx-*", "pc-q35-*"], ["acpi-s3"]),
        ("70-large", 300, ["pc-i440fx-*", "pc-q35-*"], []),
    ):
        code, template = tmp_path / f"{name}.code", tmp_path / f"{name}.template"
        code.touch()
        template.write_bytes(b"t" * size)
        describe(folder / f"{name}.json", code, template, machines, features)
    return tmp_path


def describe(path: Path, code: Path, template: Path | None, machines: list[str], features: list[str]) -> None:
    mapping: dict[str, Any] = {"device": "flash", "executable": {"filename": str(code), "format": "raw"}}
    if template is not None:
        mapping["nvram-template"] = {"filename": str(template), "format": "raw"}
    targets = [{"architecture": "x86_64", "machines": machines}, {"architecture": "aarch64", "machines": ["virt-*"]}]
    description = {"interface-types": ["uefi"], "mapping": mapping, "targets": targets, "features": features}
    path.write_text(json.dumps(description))


def test_a_guest_gets_the_first_firmware_that_fits(tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(bytes(100))
    large.write_bytes(bytes(300))
    rows: list[tuple[Hardware, Path, str]] = [
        (UEFI, tmp_path / "none", "60-plain"),
        (Q35, tmp_path / "none", "60-plain"),
        (replace(UEFI, machine="pc-i440fx-5.2"), small, "60-plain"),
        (UEFI, large, "70-large"),
        (replace(Q35, secure_boot="required"), tmp_path / "none", "40-keys"),
        (replace(Q35, secure_boot="optional"), tmp_path / "none", "40-keys"),
        (replace(Q35, secure_boot="optional"), small, "60-plain"),
    ]  # the same file for both kinds of firmware

    def check(row: tuple[Hardware, Path, str]) -> None:
        hardware, variables, name = row
        assert firmware.choose(hardware, lambda secure: variables).code.stem == name

    check_each(rows, check)


def test_variables_decide_which_firmware_a_guest_keeps(tmp_path: Path) -> None:
    def of(**sizes: int) -> Callable[[bool], Path]:
        for kind, size in sizes.items():
            (tmp_path / f"{kind}.vars").write_bytes(bytes(size))
        return lambda secure: tmp_path / f"{firmware.kind_of(secure_boot=secure)}.vars"

    optional = replace(Q35, secure_boot="optional")
    assert firmware.choose(optional, of(uefi=100)).code.stem == "60-plain"
    assert firmware.choose(optional, of(uefi=100, secure=200)).code.stem == "40-keys"
    assert firmware.choose(replace(Q35, secure_boot="required"), of(uefi=100)).code.stem == "40-keys"
    with pytest.raises(RetryableHostError, match="do not fit"):
        firmware.choose(Q35, of(uefi=150))


def test_what_a_host_has_not_is_named() -> None:
    with pytest.raises(UnsupportedError, match="no Secure Boot for the chipset pc"):
        firmware.choose(replace(UEFI, machine="pc-i440fx-5.2", secure_boot="required"), lambda secure: Path("/none"))


def test_descriptions_of_the_operator_come_first_and_broken_ones_are_left_out(installed: Path) -> None:
    (installed / "operator/60-plain.json").touch()
    (installed / "operator/10-broken.json").write_text("{")
    describe(installed / "operator/20-gone.json", installed / "gone", installed / "gone", ["pc-q35-*"], [])
    describe(installed / "operator/30-no-variables.json", installed / "40-keys.code", None, ["pc-q35-*"], [])
    assert [each.code.stem for each in firmware.known()] == ["40-keys", "70-large"]


def test_variables_begin_as_the_template_or_as_the_image_brought_them_and_stay(tmp_path: Path) -> None:
    chosen = firmware.known()[0]
    kept, brought, unfit = tmp_path / "kept.vars", tmp_path / "brought.vars", tmp_path / "unfit.vars"
    firmware.install(chosen, kept)
    assert kept.read_bytes() == chosen.template.read_bytes()
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.write_bytes(b"of the guest")
    firmware.install(chosen, kept)
    assert kept.read_bytes() == b"of the guest"
    firmware.install(chosen, brought, b"v" * 200)
    assert brought.read_bytes() == b"v" * 200
    firmware.install(chosen, unfit, b"of another size")
    assert unfit.read_bytes() == chosen.template.read_bytes()


def test_files_that_are_read_are_small_and_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, link = tmp_path / "uefi.vars", tmp_path / "secure.vars"
    file.write_bytes(b"four")
    link.symlink_to(file)
    assert firmware.read(file) == b"four"
    with pytest.raises(OSError, match="symbolic link"):
        firmware.read(link)
    monkeypatch.setattr(firmware, "MOST_FILE_BYTES", 3)
    with pytest.raises(UnsupportedError, match="KiB"):
        firmware.read(file)
