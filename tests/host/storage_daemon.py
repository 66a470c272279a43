"""A ``qemu-storage-daemon`` of the tests, which exports qcow2 files by NBD as a host's own daemon would."""

from __future__ import annotations

import json
import socket
import subprocess
import uuid
from pathlib import Path
from typing import Any

from compute_agent.contract.build import GuestDisk, VolumeConnection
from tests.host.lab import Lab, until

GIB = 1 << 30
PORT = 10_819


class StorageDaemon:
    """One daemon for one volume: a qcow2 file with the exports that were made of it."""

    def __init__(
        self, lab: Lab, folder: Path, size_gb: int = 1, source: Path | None = None, tls_hostname: str = ""
    ) -> None:
        """Make the volume, empty or from the disk ``source``, and export it.

        With ``tls_hostname``, the name in the host's certificate, over TCP with TLS, else at a unix socket.
        """
        self.id = str(uuid.uuid4())
        self.attachment_id = str(uuid.uuid5(uuid.NAMESPACE_OID, self.id))
        self.file = folder / f"{self.id}.qcow2"
        self.size_gb = size_gb
        self._lab, self._folder = lab, folder
        # As a real host does it: the name that QEMU knows is another one, and the folder holds nothing else.
        self.socket = lab.settings.state_dir / "exports" / f"{self.id}.sock"
        self._exports: list[str] = []
        self._tls_hostname = tls_hostname
        if source is not None:
            self._run("convert", "-O", "qcow2", str(source), str(self.file))
            self._run("resize", "-q", str(self.file), f"{size_gb}G")
        else:
            self._run("create", "-q", "-f", "qcow2", str(self.file), f"{size_gb}G")
        self.start()
        self.export("e1")

    def start(self) -> None:
        """Open the volume; what was exported is exported again."""
        self._monitor_path = self._folder / f"{self.id[:8]}.qmp"
        for path in (self._monitor_path, self.socket):
            path.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [
                "nsenter", f"--net={self._lab.inside().path}", "qemu-storage-daemon",
                "--blockdev", f"driver=file,node-name=file,filename={self.file}",
                "--blockdev", "driver=qcow2,node-name=volume,file=file,discard=unmap",
                *self._server(),
                "--chardev", f"socket,path={self._monitor_path},server=on,wait=off,id=m",
                "--monitor", "chardev=m",
            ]
        )  # fmt: skip
        until(lambda: self._monitor_path.exists() and (self._tls_hostname or self.socket.exists()), "the daemon")
        if not self._tls_hostname:
            self.socket.chmod(0o666)
        self._monitor = socket.socket(socket.AF_UNIX)
        until(self._connect, "the daemon's monitor")
        self._lines = self._monitor.makefile("rw")
        self._lines.readline()
        self.ask("qmp_capabilities")
        exports, self._exports = self._exports, []
        for name in exports:
            self.export(name)

    def _server(self) -> list[str]:
        if not self._tls_hostname:
            return ["--nbd-server", f"addr.type=unix,addr.path={self.socket},max-connections=0"]
        folder = self._lab.settings.state_dir / "pki"
        credentials = f"tls-creds-x509,id=t,endpoint=server,verify-peer=yes,dir={folder}"
        server = f"addr.type=inet,addr.host=127.0.0.1,addr.port={PORT},max-connections=0,tls-creds=t"
        return ["--object", credentials, "--nbd-server", server]

    def _connect(self) -> bool:
        try:
            self._monitor.connect(str(self._monitor_path))
        except OSError:
            return False
        return True

    def export(self, name: str) -> VolumeConnection:
        """Export the volume with the size that it has now."""
        self.ask(
            "block-export-add", type="nbd", id=name, node_name="volume", name=self.name_of(name), writable=True,
            writethrough=True,
        )  # fmt: skip
        self._exports.append(name)
        return self.connection(name)

    def name_of(self, export: str) -> str:
        """Return what clients call an export, as real daemons name theirs."""
        return f"{self.id}.{self.attachment_id}.{export.removeprefix('e')}"

    def end_export(self, name: str) -> None:
        self.ask("block-export-del", id=name, mode="hard")
        self._exports.remove(name)

    def connection(self, name: str = "e1") -> VolumeConnection:
        if self._tls_hostname:
            return VolumeConnection(export=self.name_of(name), address="127.0.0.1", port=PORT, tls=True,
                                    tls_hostname=self._tls_hostname)  # fmt: skip
        return VolumeConnection(export=self.name_of(name), socket=str(self.socket))

    def disk(self, device: str = "vdb", **more: Any) -> GuestDisk:
        """The volume as a guest has it."""
        given = {"connection": self.connection(self._exports[-1])} | more
        return GuestDisk(id=self.id, attachment_id=self.attachment_id, size_gb=self.size_gb, device=device, **given)

    def grow(self, size_gb: int) -> None:
        """Make the open volume larger (STORAGE: the commit of an overlay grows what is under it)."""
        over = self.file.with_suffix(".grow")
        self._run("create", "-q", "-u", "-f", "qcow2", "-b", str(self.file), "-F", "qcow2", str(over), f"{size_gb}G")
        self.ask("blockdev-add", driver="qcow2", node_name="grow", backing=None,
                 file={"driver": "file", "filename": str(over)})  # fmt: skip
        self.ask("blockdev-snapshot", node="volume", overlay="grow")
        self.ask("block-commit", job_id="grow", device="grow")
        until(lambda: self._job("grow") == "ready", "the commit")
        self.ask("job-complete", id="grow")
        until(lambda: self._job("grow") in {None, "concluded"}, "the end of the commit")
        if self._job("grow"):
            self.ask("job-dismiss", id="grow")
        self.ask("blockdev-del", node_name="grow")
        over.unlink()
        self.size_gb = size_gb

    def _job(self, name: str) -> str | None:
        return {job["id"]: job["status"] for job in self.ask("query-jobs")}.get(name)

    def ask(self, command: str, **arguments: Any) -> Any:
        words = {"execute": command, "arguments": {name.replace("_", "-"): value for name, value in arguments.items()}}
        self._lines.write(json.dumps(words) + "\n")
        self._lines.flush()
        while True:
            answer = json.loads(self._lines.readline())
            if "event" not in answer:
                assert "return" in answer, answer
                return answer["return"]

    def kill(self) -> None:
        """End the daemon at once, with nothing written that it has not written."""
        self.process.kill()
        self.process.wait()
        self._lines.close()
        self._monitor.close()

    def stop(self) -> None:
        """Close the volume in an orderly way."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
            self._lines.close()
            self._monitor.close()

    def content(self) -> bytes:
        """Return what the closed volume has at its beginning (16 MiB)."""
        assert self.process.poll() is not None
        raw = self.file.with_suffix(".raw")
        self._run("dd", "-f", "qcow2", "-O", "raw", "bs=1M", "count=16", f"if={self.file}", f"of={raw}")
        return raw.read_bytes()

    @staticmethod
    def _run(*words: str) -> None:
        subprocess.run(["qemu-img", *words], check=True, stdout=subprocess.DEVNULL)
