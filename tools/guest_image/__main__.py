#!/usr/bin/env python3
"""Builds Novella's small guest image from packages of this machine's Debian or Ubuntu, without installing or mounting.

The result is ``DEST/novella-guest.qcow2``: a whole disk that SeaBIOS boots (MBR, a FAT partition with syslinux, kernel
and ramdisk, an ext4 root partition at the end, grown at every boot to the size of the disk), and
``DEST/novella-guest.json`` with its recipe and hash.  A guest needs 96 MiB of memory, takes its address by DHCP and its
identity from a NoCloud seed, a config drive or the metadata service, and has no password: it is entered by SSH with the
key of the seed.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.guest_image.modules import copy_modules

FILES = Path(__file__).resolve().parent / "files"
IMAGE = "novella-guest.qcow2"
RECORD = "novella-guest.json"
LABEL = "novella-root"
SECTOR = 512
MIB = 2048  # in sectors

HOST_PACKAGES = ("apt", "cpio", "dpkg", "e2fsprogs", "mtools", "qemu-utils", "syslinux", "syslinux-common", "zstd")
"""The packages that this machine must have; the names are the same on Debian 12 and 13 and Ubuntu 22.04 and 24.04."""
HOST_PROGRAMS = {"apt-get": "apt", "cpio": "cpio", "dpkg-deb": "dpkg", "mke2fs": "e2fsprogs", "mcopy": "mtools",
                 "qemu-img": "qemu-utils", "syslinux": "syslinux"}  # fmt: skip
MBR = ("/usr/lib/syslinux/mbr/mbr.bin", "/usr/lib/SYSLINUX/mbr.bin")

KERNELS = ("linux-image-cloud-amd64", "linux-image-virtual", "linux-image-amd64")
"""Kernel packages, small and fast ones for virtual machines first. The first one in the machine's package lists is
used.
"""
USERLAND = ("busybox-static", "dropbear-bin", "e2fsprogs", "qemu-guest-agent", "util-linux")
LIBRARY = re.compile(r"^(lib(?!.*perl)|zlib)")
KERNEL_PART = re.compile(r"^linux-(image|modules)-\d")

RAMDISK_MODULES = ("virtio_pci", "virtio_blk", "ext4")
ROOT_MODULES = ("virtio_net", "virtio-rng", "virtio_balloon", "ata_piix", "sr_mod", "sd_mod", "virtio_scsi", "isofs",
                "vfat", "nls_ascii", "button", "evdev", "virtio_console")  # fmt: skip
PROGRAMS = ("usr/sbin/dropbear", "usr/bin/dbclient", "usr/bin/dropbearkey", "usr/sbin/qemu-ga", "sbin/blkid",
            "sbin/mkfs.ext4", "sbin/resize2fs", "bin/lsblk")  # fmt: skip
ROOT_FOLDERS = ("bin", "sbin", "usr/bin", "usr/sbin", "lib64", "etc/acpi/PWRF", "root", "tmp", "run", "dev", "proc",
                "sys", "mnt", "var/log", "var/lib/novella")  # fmt: skip
NOT_LINKED = frozenset({"busybox", "blkid", "mke2fs", "udhcpd", "rpm", "rpm2cpio", "ar"})
IN_SBIN = ("init", "getty", "reboot", "poweroff", "halt", "udhcpc")


class BuildError(Exception):
    """The image cannot be built here; the message gives the reason."""


@dataclass(frozen=True)
class Work:
    """The folders of one build."""

    top: Path

    def folder(self, name: str) -> Path:
        """Return a folder below ``top``, and create it if it does not exist."""
        path = self.top / name
        path.mkdir(exist_ok=True)
        return path


def search_path() -> str:
    """Return PATH with the administrator's folders."""
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def run(*command: str | Path, cwd: Path | None = None, stdin: bytes | None = None) -> str:
    """Run a program and return its output. Raises BuildError with the end of its error output."""
    environment = os.environ | {"LC_ALL": "C", "MTOOLS_SKIP_CHECK": "1", "PATH": search_path()}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, input=stdin, capture_output=True, env=environment, check=False)
    if done.returncode != 0:
        output = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise BuildError(f"{Path(words[0]).name} failed: {output[-600:]}")
    return done.stdout.decode(errors="replace")


def recipe_hash() -> str:
    """Return a hash of everything that determines the image, except the versions of the packages."""
    digest = hashlib.sha256()
    here = Path(__file__).resolve()
    for path in sorted([*here.parent.glob("*.py"), *FILES.iterdir()]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def dependencies(*packages: str, recurse: bool) -> list[str]:
    """Return the dependencies of packages according to apt; an empty list for unknown packages."""
    options = ["--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances"]
    try:
        lines = run("apt-cache", "depends", *(["--recurse"] if recurse else []), *options, *packages).splitlines()
    except BuildError:
        return []
    names = lines if recurse else [line.partition("Depends: ")[2] for line in lines]
    return sorted({name for name in names if name and name[0] not in " <|"})


def choose_packages() -> list[str]:
    """Return all packages of the guest: kernel, modules, programs and their libraries."""
    for meta in KERNELS:
        kernel = [name for name in dependencies(meta, recurse=False) if KERNEL_PART.match(name)]
        if kernel:
            break
    else:
        raise BuildError("apt knows no kernel for the guest (" + ", ".join(KERNELS) + "): run 'apt-get update' first.")
    for name in list(kernel):
        kernel += [part for part in dependencies(name, recurse=False) if KERNEL_PART.match(part) and part not in kernel]
    libraries = [name for name in dependencies(*USERLAND, recurse=True) if LIBRARY.match(name)]
    return [*kernel, *USERLAND, *libraries]


def unpack_packages(work: Work) -> tuple[Path, list[str]]:
    """Download and unpack the packages; return the tree, and the names of the package files (with versions)."""
    downloads, tree = work.folder("downloads"), work.folder("tree")
    # apt would switch to a user of its own, who may not write here.
    run("apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", *choose_packages(), cwd=downloads)
    packages = sorted(downloads.glob("*.deb"))
    for package in packages:
        run("dpkg-deb", "--extract", package, tree)
    return tree, [package.name for package in packages]


def find(tree: Path, path: str) -> Path:
    """Return the path of a file, whether or not this distribution has merged ``/usr``. Raises BuildError."""
    for candidate in (tree / path, tree / "usr" / path, tree / path.removeprefix("usr/")):
        if candidate.exists():
            return candidate
    raise BuildError(f"The packages hold no {path}.")


def install(source: Path, target: Path, mode: int = 0o755) -> None:
    """Copy a file and set its mode; links are followed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def kernel_of(tree: Path) -> tuple[Path, Path]:
    """Return the kernel and the folder of its modules."""
    modules = next(iter(sorted(find(tree, "lib/modules").iterdir())))
    return find(tree, f"boot/vmlinuz-{modules.name}"), modules


def build_ramdisk(work: Work, tree: Path, modules: Path) -> bytes:
    """Create the ramdisk: busybox, the disk's drivers and the program that mounts the root."""
    top = work.folder("ramdisk")
    for name in ("proc", "sys", "dev", "newroot"):
        (top / name).mkdir()
    install(find(tree, "bin/busybox"), top / "bin/busybox")
    install(FILES / "initrd-init", top / "init")
    copy_modules(modules, top / "modules", RAMDISK_MODULES)
    names = "\n".join(sorted(str(path.relative_to(top)) for path in top.rglob("*")))
    archive = work.top / "ramdisk.cpio"
    command = ("cpio", "--create", "--format=newc", "--owner=0:0", "--quiet", f"--file={archive}")
    run(*command, cwd=top, stdin=names.encode())
    return gzip.compress(archive.read_bytes(), 9, mtime=0)


def copy_program(tree: Path, path: str, root: Path) -> None:
    """Copy a program that is not part of busybox, with the libraries that its loader requires."""
    loader = find(tree, "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2")
    install(loader, root / "lib64/ld-linux-x86-64.so.2")
    folders = [tree / "lib/x86_64-linux-gnu", tree / "usr/lib/x86_64-linux-gnu"]
    program = find(tree, path)
    install(program, root / "usr" / path.removeprefix("usr/"))
    listing = run(loader, "--library-path", ":".join(map(str, folders)), "--list", program)
    for library in re.findall(r"=> (\S+)", listing):
        if not library.startswith(str(tree)):
            raise BuildError(f"{path} needs {library}, which the packages do not contain.")
        if "ld-linux" not in library:
            install(Path(library), root / "lib/x86_64-linux-gnu" / Path(library).name)


def build_root(work: Work, tree: Path, modules: Path) -> Path:
    """Create the root file system; return the ext4 image."""
    root = work.folder("root")
    for name in ROOT_FOLDERS:
        (root / name).mkdir(parents=True)
    (root / "root").chmod(0o700)
    (root / "tmp").chmod(0o1777)
    busybox = root / "bin/busybox"
    install(find(tree, "bin/busybox"), busybox)
    for applet in run(busybox, "--list").split():
        if applet not in NOT_LINKED:
            (root / "bin" / applet).symlink_to("/bin/busybox")
    for applet in IN_SBIN:
        (root / "sbin" / applet).symlink_to("/bin/busybox")
    for program in PROGRAMS:
        copy_program(tree, program, root)
    copy_modules(modules, root / "modules", ROOT_MODULES)
    install(FILES / "rc.S", root / "etc/rc.S")
    install(FILES / "udhcpc.script", root / "etc/udhcpc.script")
    install(FILES / "sudo", root / "usr/bin/sudo")
    install(FILES / "power-button", root / "etc/acpi/PWRF/00000080")
    for name in ("inittab", "json.awk", "yaml.awk", "static.awk"):
        install(FILES / name, root / "etc" / name, 0o644)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    (root / "etc/shells").write_text("/bin/sh\n")
    (root / "etc/issue").write_text("Novella guest \\n (\\l); enter with the SSH key of the instance\n")
    (root / "etc/shadow").write_text("root:*:19000:0:99999:7:::\n")
    (root / "etc/shadow").chmod(0o600)
    image = work.top / "root.ext4"
    # 4096-byte blocks and a reserve of descriptors: the file system can grow to 1 TiB while it is mounted.
    run("mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-O", "^metadata_csum,^64bit,uninit_bg", "-J", "size=4",
        "-m", "0", "-L", LABEL, "-E", "root_owner=0:0,resize=268435456", "-d", root, image, "32M")  # fmt: skip
    return image


def partition_table(partitions: Sequence[tuple[int, int, int, int]], *, bios: bool = True) -> bytes:
    """Return an MBR with entries of (flag, type, first sector, sectors); with ``bios``, it contains syslinux's boot
    code.
    """
    code = b"" if not bios else next((Path(path).read_bytes() for path in MBR if Path(path).exists()), None)
    if code is None:
        raise BuildError("syslinux's mbr.bin is missing: install syslinux-common.")
    entries = b"".join(struct.pack("<B3sB3sII", flag, b"\xfe\xff\xff", kind, b"\xfe\xff\xff", first, count)
                       for flag, kind, first, count in partitions)  # fmt: skip
    return code.ljust(440, b"\0") + struct.pack("<IH", 0x4E6F7661, 0) + entries.ljust(64, b"\0") + b"\x55\xaa"


def build_disk(work: Work, kernel: Path, ramdisk: bytes, root: Path) -> Path:
    """Write the complete disk: boot code, a FAT partition with syslinux, kernel and ramdisk, and the root partition at
    the end.
    """
    (work.top / "initrd.gz").write_bytes(ramdisk)
    boot_size = (kernel.stat().st_size + len(ramdisk)) // (1 << 20) + 3
    boot_first, boot_count = MIB, boot_size * MIB
    root_first, root_count = boot_first + boot_count, root.stat().st_size // SECTOR
    disk = work.top / "disk.raw"
    with disk.open("wb") as out:
        out.truncate((root_first + root_count) * SECTOR)
        out.write(partition_table([(0x80, 0x0E, boot_first, boot_count), (0, 0x83, root_first, root_count)]))
        out.seek(root_first * SECTOR)
        with root.open("rb") as source:
            shutil.copyfileobj(source, out, 1 << 20)
    fat = f"{disk}@@{boot_first * SECTOR}"
    geometry = ("-h", "255", "-s", "63", "-T", str(boot_count), "-H", str(boot_first))
    run("mformat", "-i", fat, *geometry, "-v", "NOVELLA", "::")
    run("mcopy", "-i", fat, kernel, "::/vmlinuz")
    run("mcopy", "-i", fat, work.top / "initrd.gz", FILES / "syslinux.cfg", "::/")
    run("syslinux", "--install", "--offset", str(boot_first * SECTOR), disk)
    return disk


def build(destination: Path) -> dict[str, object]:
    """Build the image and its record in ``destination``. Neither name ever refers to an incomplete file."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=".guest-", dir=destination) as folder:
        work = Work(Path(folder))
        tree, packages = unpack_packages(work)
        kernel, modules = kernel_of(tree)
        disk = build_disk(work, kernel, build_ramdisk(work, tree, modules), build_root(work, tree, modules))
        image = work.top / IMAGE
        run("qemu-img", "convert", "-c", "-f", "raw", "-O", "qcow2", disk, image)
        record: dict[str, object] = {
            "recipe": recipe_hash(),
            "file": IMAGE,
            "disk_format": "qcow2",
            "size": image.stat().st_size,
            "virtual_size": disk.stat().st_size,
            "sha512": hashlib.sha512(image.read_bytes()).hexdigest(),
            "min_ram": 96,
            "kernel": modules.name,
            "packages": packages,
            "seconds": round(time.monotonic() - started, 1),
        }
        image.replace(destination / IMAGE)
        written = work.top / RECORD
        written.write_text(json.dumps(record, indent=1) + "\n")
        written.replace(destination / RECORD)
    return record


def already_built(destination: Path) -> dict[str, object] | None:
    """Return the record of the image in ``destination`` if this recipe created it and it is complete."""
    try:
        record: dict[str, object] = json.loads((destination / RECORD).read_text())
        size = (destination / IMAGE).stat().st_size
    except (OSError, ValueError):
        return None
    return record if record.get("recipe") == recipe_hash() and record.get("size") == size else None


def check_host(programs: Iterable[str]) -> None:
    """Raise BuildError with the names of missing packages."""
    missing = sorted({HOST_PROGRAMS[name] for name in programs if shutil.which(name, path=search_path()) is None})
    if missing:
        raise BuildError("These packages are missing: " + " ".join(missing))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build Novella's guest image from this machine's package sources.")
    parser.add_argument("destination", metavar="DEST", nargs="?", type=Path, help="folder for the image and its record")
    parser.add_argument("--packages", action="store_true", help="print the packages it needs, one in a line")
    parser.add_argument("--force", action="store_true", help="build even if the image exists")
    options = parser.parse_args(arguments)
    if options.packages:
        print("\n".join(HOST_PACKAGES))
        return 0
    if options.destination is None:
        parser.error("DEST is missing")
    destination = options.destination.resolve()
    destination.mkdir(parents=True, exist_ok=True)
    record = None if options.force else already_built(destination)
    if record is not None:
        print(f"{destination / IMAGE} is up to date.")
        return 0
    try:
        check_host(HOST_PROGRAMS)
        record = build(destination)
    except BuildError as error:
        print(f"The guest image was not built. {error}", file=sys.stderr)
        return 1
    print(f"{destination / IMAGE}: {int(str(record['size'])) / 1e6:.1f} MB, built in {record['seconds']} s.")
    return 0


if __name__ == "__main__":
    if os.geteuid() != 0 and shutil.which("unshare"):
        # The files of the image belong to root: a user namespace is enough for that.
        os.execvp("unshare", ["unshare", "--map-root-user", *sys.orig_argv])  # noqa: S606
    sys.exit(main())
