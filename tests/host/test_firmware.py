"""Variables of UEFI and TPMs of real guests: kept through all that happens to a guest, taken to another host, and gone
with it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec, RescueImage
from compute_agent.contract.firmware_state import pack, unpack
from compute_agent.contract.power import PowerState
from compute_agent.virt.driver import BootFiles
from compute_agent.virt.errors import HostError, UnsupportedError
from tests.host.cast import Wish
from tests.host.host_process import HostProcess
from tests.host.lab import PATIENCE, Lab, processes_naming
from tests.host.woken import prepare
from tests.support.guest_image import GuestImage

pytestmark = [
    pytest.mark.deep,
    pytest.mark.libvirt,
    pytest.mark.skipif(
        not Path("/usr/share/qemu/firmware").is_dir() or shutil.which("swtpm_setup") is None,
        reason="needs ovmf, swtpm and swtpm-tools",
    ),
]
ASKED = {"hw_firmware_type": "uefi", "hw_machine_type": "q35", "hw_disk_bus": "sata", "hw_tpm_version": "2.0"}
MARK = b"a boot entry"


@pytest.fixture
def host(lab: Lab, small: GuestImage) -> Iterator[HostProcess]:
    host = HostProcess(lab.settings, lab.machine.path, small.path)
    host.network.init_host()
    host.driver.init_host()
    yield host
    host.kill()


def runs(host: HostProcess, spec: InstanceSpec) -> None:
    host.driver.start(spec.uuid)
    assert host.driver.wait_for_boot(spec.uuid, PATIENCE) == PowerState.RUNNING


def test_variables_and_tpm_stay_with_their_guest_and_go_with_it(lab: Lab, host: HostProcess, small: GuestImage) -> None:
    spec = Wish(image=replace(small.ref, properties=ASKED), root_gb=0).spec()
    state = lab.settings.state_dir
    folder, key = state / "instances" / spec.uuid, state / "tpm-keys" / spec.uuid
    prepare(host, spec)
    runs(host, spec)
    assert processes_naming(folder / "tpm")
    tpm, passphrase = folder / "tpm/state/tpm2-00.permall", key.read_text()
    assert (tpm.stat().st_mode & 0o077, key.stat().st_mode & 0o077) == (0, 0)
    variables = folder / "uefi.vars"
    for number in range(3):  # PCI Express has as many places as a guest was given before it started
        more = replace(spec.ports[0], mac_address=f"fa:16:3e:00:99:0{number}", tap=f"tapmore{number}")
        host.driver.attach_interface(spec, more)
        assert more.mac_address in host.driver.interfaces()[spec.uuid]
    host.driver.stop(spec.uuid, 0)
    assert not processes_naming(folder / "tpm")
    variables.write_bytes(MARK + variables.read_bytes()[len(MARK) :])
    kept = variables.read_bytes()
    assert host.driver.uefi_variables(spec.uuid) == {"uefi": kept}

    rescue = replace(spec, rescue=RescueImage(image=small.ref))
    base = host.images.get(spec.image, spec.uuid).path
    host.driver.rescue(rescue, 2, base, BootFiles())
    runs(host, spec)
    assert processes_naming(folder / "tpm")
    host.driver.unrescue(spec, 3)
    host.driver.resize(replace(spec, flavor=replace(spec.flavor, root_gb=1)), 4)
    host.driver.confirm_resize(spec.uuid)
    host.driver.create_disk(spec, base)
    host.driver.define(spec, 5)
    assert (variables.read_bytes(), key.read_text()) == (kept, passphrase)
    assert tpm.stat().st_size
    runs(host, spec)

    host.driver.destroy(spec.uuid)
    assert not folder.exists()
    assert not key.exists()
    assert not processes_naming(folder)
    assert host.driver.leftovers() == []
    key.write_text(passphrase)
    assert [(each.kind, each.subject_id) for each in host.driver.leftovers()] == [("folder", spec.uuid)]
    host.driver.destroy(spec.uuid)
    assert host.driver.leftovers() == []


def test_variables_and_tpm_go_to_another_host(lab: Lab, host: HostProcess, small: GuestImage) -> None:
    spec = Wish(image=replace(small.ref, properties=ASKED), root_gb=0).spec()
    folder = lab.settings.state_dir / "instances" / spec.uuid
    prepare(host, spec)
    runs(host, spec)
    with pytest.raises(UnsupportedError):
        host.driver.firmware_state(spec.uuid)
    host.driver.stop(spec.uuid, 0)
    variables = folder / "uefi.vars"
    variables.write_bytes(MARK + variables.read_bytes()[len(MARK) :])
    packed = pack(host.driver.firmware_state(spec.uuid))
    assert len(packed) < 100_000
    state = unpack(packed)
    assert state is not None
    assert state.variables == {"uefi": variables.read_bytes()}
    assert state.tpm["tpm2-00.permall"]
    host.driver.destroy(spec.uuid)
    base = host.images.get(spec.image, spec.uuid).path

    for brought in (replace(state, tpm_key="0" * 64), state):  # what QEMU gets is the state, not a new TPM
        host.driver.create_disk(spec, base)
        host.driver.restore_firmware(spec.uuid, brought)
        host.driver.create_seed(spec)
        host.driver.define(spec, 2)
        if brought is not state:
            with pytest.raises(HostError):
                runs(host, spec)
    assert host.driver.firmware_state(spec.uuid) == state
    runs(host, spec)
    assert processes_naming(folder / "tpm")
    host.driver.destroy(spec.uuid)
    assert host.driver.leftovers() == []
