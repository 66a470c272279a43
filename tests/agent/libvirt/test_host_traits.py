"""Traits of a host: from what libvirt, firmware and programs on it say."""

from __future__ import annotations

from pathlib import Path

import libvirt
import pytest

from compute_agent.contract.cpu import Cpu
from compute_agent.contract.hardware import DEFAULT, read
from compute_agent.virt.errors import UnsupportedError
from compute_agent.virt.libvirt import firmware, host_limits, host_traits, tpm
from compute_agent.virt.libvirt.cpus import Cpus
from compute_agent.virt.libvirt.firmware import Firmware

CAPABILITIES = """<capabilities><guest><os_type>hvm</os_type><arch name='x86_64'><machine>pc-q35-7.2</machine>
<machine canonical='pc-q35-7.2'>q35</machine><machine>pc-i440fx-2.10</machine></arch></guest></capabilities>"""
DOMAIN = """<domainCapabilities><cpu>
 <mode name='host-passthrough' supported='no'/><mode name='maximum' supported='yes'/>
 <mode name='host-model' supported='yes'><model>EPYC</model><feature policy='require' name='acpi'/></mode>
 <mode name='custom' supported='yes'><model usable='yes'>Nehalem</model><model usable='no'>Haswell-noTSX</model></mode>
</cpu><devices>
 <disk supported='yes'><enum name='bus'><value>virtio</value><value>{bus}</value><value>fdc</value></enum></disk>
 <video supported='yes'><enum name='modelType'><value>vga</value><value>ramfb</value></enum></video>
 <tpm supported='yes'><enum name='model'><value>tpm-crb</value></enum>
  <enum name='backendModel'><value>emulator</value><value>external</value></enum></tpm>
</devices></domainCapabilities>"""
CPU = """<cpu><model>EPYC</model><feature policy='require' name='svm'/><feature policy='require' name='pni'/>
<feature policy='disable' name='avx'/></cpu>"""


class Hypervisor:
    """As much of a connection as is asked."""

    def __init__(self, version: int = 7_002_000) -> None:
        self.version, self.asked = version, 0

    def getDomainCapabilities(self, _emulator: None, _arch: str, machine: str, _virt: str, _flags: int) -> str:  # noqa: N802
        self.asked += 1
        return DOMAIN.format(bus="ide" if machine == "pc" else "sata")

    def getCapabilities(self) -> str:  # noqa: N802
        return CAPABILITIES

    def getVersion(self) -> int:  # noqa: N802
        return self.version

    def getLibVersion(self) -> int:  # noqa: N802
        return self.version

    def baselineHypervisorCPU(self, *_words: object) -> str:  # noqa: N802
        return CPU


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No firmware, no swtpm and no traffic control."""
    monkeypatch.setattr(firmware, "known", list)
    monkeypatch.setattr(tpm, "installed", lambda: False)
    monkeypatch.setattr(host_limits, "limits_traffic", lambda: False)


def test_devices_processors_and_chipsets_are_traits() -> None:
    result = set(host_traits.traits_of(Hypervisor(), "qemu"))
    assert {
        "COMPUTE_STORAGE_BUS_IDE", "COMPUTE_STORAGE_BUS_SATA", "COMPUTE_STORAGE_BUS_VIRTIO",
        "COMPUTE_GRAPHICS_MODEL_VGA", "COMPUTE_NET_VIF_MODEL_E1000", "COMPUTE_NET_VIRTIO_PACKED",
        "COMPUTE_FIRMWARE_BIOS", "COMPUTE_SOUND_MODEL_ICH9", "CUSTOM_CPU_MODE_MAXIMUM", "CUSTOM_CPU_MODEL_NEHALEM",
        "CUSTOM_MACHINE_TYPE_PC_Q35_7_2", "CUSTOM_MACHINE_TYPE_PC_I440FX_2_10", "HW_ARCH_X86_64", "HW_CPU_X86_SVM",
        "HW_CPU_X86_AMD_SVM", "HW_CPU_X86_SSE3",
    } <= result  # fmt: skip
    absent = (
        "FDC", "RAMFB", "IGB", "HASWELL", "HOST_PASSTHROUGH", "AVX", "UEFI", "STATELESS", "TPM", "SECURITY",
    )  # fmt: skip
    assert not [trait for trait in result if any(word in trait for word in absent)]
    assert "COMPUTE_NET_VIF_MODEL_IGB" in host_traits.traits_of(Hypervisor(8_000_000), "qemu")


def test_firmware_and_tpm_are_traits_as_soon_as_they_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    traits, hypervisor = host_traits.Traits("qemu"), Hypervisor()
    before = set(traits.of(hypervisor))
    assert traits.of(hypervisor) == tuple(sorted(before))
    assert hypervisor.asked == 2  # once for each chipset
    plain = Firmware(Path("/code"), Path("/template"), ("pc-*",))
    monkeypatch.setattr(firmware, "known", lambda: [plain, Firmware(Path("/s"), Path("/v"), ("pc-q35-*",), True, True)])
    monkeypatch.setattr(tpm, "installed", lambda: True)
    assert set(traits.of(hypervisor)) - before == {
        "COMPUTE_FIRMWARE_UEFI", "COMPUTE_SECURITY_STATELESS_FIRMWARE", "COMPUTE_SECURITY_UEFI_SECURE_BOOT",
        "COMPUTE_SECURITY_TPM_1_2", "COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_CRB",
    }  # fmt: skip


def test_limits_are_set_where_the_host_can(monkeypatch: pytest.MonkeyPatch) -> None:
    processor, traffic = read({}, {"quota:cpu_shares": "9"}, 1), read({}, {"quota:vif_inbound_average": "9"}, 1)
    before = set(host_traits.Traits("qemu").of(Hypervisor()))
    for hardware, words in ((processor, "control groups"), (traffic, "traffic control")):
        with pytest.raises(UnsupportedError, match=words):
            host_limits.check(hardware, ["memory"])
    monkeypatch.setattr(host_limits, "limits_traffic", lambda: True)
    result = set(host_traits.Traits("qemu", ["cpu", "memory"]).of(Hypervisor()))
    assert result - before == {"CUSTOM_CPU_LIMITS", "CUSTOM_VIF_LIMITS"}
    for hardware in (DEFAULT, processor, traffic):
        host_limits.check(hardware, ["cpu"])


@pytest.mark.parametrize("here", [True, False])
def test_traffic_control_is_tried_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, here: bool) -> None:
    program = tmp_path / "unshare"
    program.write_text(f"#!/bin/sh\n{'exit 0' if here else 'echo no kind sfq >&2; exit 1'}\n")
    program.chmod(0o755)
    monkeypatch.setattr(host_limits, "SYSTEM_PATH", str(tmp_path))
    assert host_limits.tries_traffic_control() is here
    program.unlink()
    assert not host_limits.tries_traffic_control()


def test_a_hypervisor_that_does_not_answer_has_what_all_have(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_words: object) -> str:
        raise libvirt.libvirtError("no")

    hypervisor = Hypervisor()
    monkeypatch.setattr(hypervisor, "getDomainCapabilities", fails)
    assert host_traits.traits_of(hypervisor, "qemu") == (
        "COMPUTE_FIRMWARE_BIOS",
        "COMPUTE_NET_VIRTIO_PACKED",
        "HW_ARCH_X86_64",
    )


class Domain:
    """A running domain with this processor."""

    def __init__(self, cpu: str) -> None:
        self.cpu, self.start = cpu, 1

    def UUIDString(self) -> str:  # noqa: N802
        return "a-guest"

    def ID(self) -> int:  # noqa: N802
        return self.start

    def XMLDesc(self, _flags: int) -> str:  # noqa: N802
        return f"<domain>{self.cpu}</domain>"


def test_the_processor_of_a_guest_is_read_once_for_each_start() -> None:
    hypervisor, known = Hypervisor(), Cpus("qemu")
    assert known.of_host(hypervisor) == Cpu("EPYC", "", ["pni", "svm"])
    domain = Domain("<cpu mode='maximum'><feature policy='disable' name='svm'/></cpu>")
    assert known.of_guests(hypervisor, [domain])["a-guest"].features == ["pni"]
    domain.cpu = "<cpu mode='custom'><model>EPYC</model></cpu>"
    assert known.of_guests(hypervisor, [domain])["a-guest"].features == ["pni"]
    domain.start = 2
    assert known.of_guests(hypervisor, [domain])["a-guest"].features == ["pni", "svm"]
    assert (known.of_guests(hypervisor, []), hypervisor.asked) == ({}, 1)
