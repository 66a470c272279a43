"""Measures QEMU and libvirt without Novella: ``qemu-img create`` and ``createXML``, N times.

bin/bench runs it in namespaces of its own: ``python bin/libexec tools.bench.bare IMAGE N`` prints seconds as a JSON
list.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

from compute_agent.contract.build import FlavorRef, ImageRef, InstanceSpec
from compute_agent.settings import AgentSettings
from compute_agent.virt.libvirt import kvm, qemu_conf
from compute_agent.virt.libvirt.connection import Connection
from compute_agent.virt.libvirt.domain_xml import domain_xml
from compute_agent.virt.libvirt.paths import HostPaths

RUN = Path("/run")


def spec() -> InstanceSpec:
    """Return the spec of a guest with the flavor ``m1.nano``, without a network."""
    return InstanceSpec(
        uuid=str(uuid.uuid4()),
        name="bare",
        hostname="bare",
        project_id="0" * 32,
        user_id="0" * 32,
        image=ImageRef(
            id=str(uuid.uuid4()), name="bare", disk_format="raw", size=0, hash_algo="sha512", hash_value="0"
        ),
        flavor=FlavorRef(name="m1.nano", vcpus=1, memory_mb=96, root_gb=1),
        ports=[],
    )


def connect(paths: HostPaths) -> Connection:
    """Open libvirt's embedded driver in the folders of a host."""
    conf = qemu_conf.render(paths.account, [], paths.certificates)
    hypervisor = Connection(f"embed:{paths.libvirt_root}", lambda *_: None, lambda: None, conf)
    hypervisor.open()
    return hypervisor


def measure(image: Path, times: int, folder: Path) -> list[float]:
    """Return the seconds of each of ``times`` starts; each guest is stopped right after its start."""
    virt_type = kvm.prepare(AgentSettings(host="bare", state_dir=folder))
    paths = HostPaths(folder)
    paths.prepare()
    base = folder / "base.raw"
    subprocess.run(["qemu-img", "convert", "-O", "raw", str(image), str(base)], check=True)
    hypervisor = connect(paths)
    spent = []
    for _ in range(times):
        guest = spec()
        where = paths.instance(guest.uuid)
        where.folder.mkdir(parents=True)
        began = time.monotonic()
        overlay = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(base), "-F", "raw", str(where.root_disk), "1G"]
        subprocess.run(overlay, check=True)
        where.seed.touch()
        where.hand_over()
        domain = hypervisor.get().createXML(domain_xml(guest, 1, where, virt_type), 0)
        spent.append(time.monotonic() - began)
        domain.destroy()
    hypervisor.close()
    return spent


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="nvb-", dir=RUN))
    try:
        print(json.dumps(measure(Path(sys.argv[1]), int(sys.argv[2]), folder)))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
