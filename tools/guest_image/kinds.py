"""Builds small disks of many kinds, like those of users from other clouds, from packages of this machine's Debian.

Each has Debian's general kernel, and a ramdisk with busybox and only the drivers of its kind. The first program in the
ramdisk prints the hardware that it has found on the serial line. Nothing is installed or mounted.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.guest_image.__main__ import (
    FILES,
    MIB,
    SECTOR,
    BuildError,
    Work,
    copy_program,
    dependencies,
    find,
    install,
    kernel_of,
    partition_table,
    run,
)
from tools.guest_image.modules import copy_modules

KERNEL = "linux-image-amd64"
PACKAGES = ("busybox-static", "shim-signed", "grub-efi-amd64-signed", "isolinux", "syslinux-common", "lvm2")
VIRTIO = ("virtio_pci", "virtio_blk", "virtio_scsi", "virtio_net")
FAT, ESP = 0x0E, 0xEF
SAID = "=== kind:"
"""The prefix of the line in which a guest reports its properties."""
SHIM, GRUB = "usr/lib/shim/shimx64.efi.signed", "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed"
LVM_GROUP, LVM_VOLUME = "kinds", "root"
GRUB_CONFIGURATION = """\
linux /vmlinuz console=ttyS0 quiet
initrd /initrd.gz
boot
"""


@dataclass(frozen=True)
class Kind:
    """A kind of disk: its drivers, and its boot loader: ``bios``, ``uefi``, ``shim`` or ``iso``."""

    name: str
    loader: str
    modules: tuple[str, ...]
    lvm: bool = False

    @property
    def disk_format(self) -> str:
        return "iso" if self.loader == "iso" else "qcow2"


IDE, SATA, CARD = ("ata_piix", "sd_mod", "sr_mod"), ("ahci", "sd_mod", "sr_mod"), ("e1000",)
KINDS = (
    Kind("bios", "bios", VIRTIO),
    Kind("uefi", "uefi", VIRTIO),
    Kind("secure-boot", "shim", VIRTIO),
    Kind("lvm", "bios", (*VIRTIO, "dm_mod", "ext4"), lvm=True),
    Kind("two-disks", "bios", (*VIRTIO, "sd_mod")),
    Kind("without-virtio", "bios", (*IDE, *CARD)),
    Kind("e1000-only", "bios", ("virtio_pci", "virtio_blk", *CARD)),
    Kind("sata", "uefi", (*SATA, "e1000e")),
    Kind("iso", "iso", (*IDE, *VIRTIO, "isofs")),
    Kind("tpm", "uefi", VIRTIO),
    Kind("scsi", "bios", ("virtio_pci", "virtio_scsi", "virtio_net", "sd_mod")),
    Kind("uefi-without-virtio", "shim", (*IDE, *CARD)),
)


def unpack(work: Work) -> Path:
    """Download and unpack the packages; return the tree."""
    downloads, tree = work.folder("downloads"), work.folder("tree")
    kernels = [name for name in dependencies(KERNEL, recurse=False) if name.startswith("linux-image-")]
    libraries = [name for name in dependencies("lvm2", recurse=True) if name.startswith(("lib", "zlib", "dmsetup"))]
    names = [*kernels, *PACKAGES, *libraries]
    run("apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", *names, cwd=downloads)
    for package in sorted(downloads.glob("*.deb")):
        run("dpkg-deb", "--extract", package, tree)
    return tree


def ramdisk(work: Work, tree: Path, modules: Path, kind: Kind, builder: str = "") -> bytes:
    """Create the ramdisk of a kind. ``builder`` is a shell script that the ramdisk runs instead of reporting the
    hardware.
    """
    top = work.folder(f"ramdisk-{kind.name}{'-builder' if builder else ''}")
    for name in ("proc", "sys", "dev", "run", "mnt", "etc"):
        (top / name).mkdir(exist_ok=True)
    install(find(tree, "bin/busybox"), top / "bin/busybox")
    install(FILES / "kind-init", top / "init")
    (top / "kind").write_text(kind.name)
    if kind.lvm:
        copy_program(tree, "sbin/lvm", top)
    if builder:
        (top / "builder").write_text(builder)
    copy_modules(modules, top / "modules", kind.modules)
    names = "\n".join(sorted(str(path.relative_to(top)) for path in top.rglob("*")))
    archive = work.top / f"{top.name}.cpio"
    command = ("cpio", "--create", "--format=newc", "--owner=0:0", "--quiet", f"--file={archive}")
    run(*command, cwd=top, stdin=names.encode())
    return gzip.compress(archive.read_bytes(), 6, mtime=0)


def boot_files(work: Work, tree: Path, kind: Kind, packed: bytes) -> list[tuple[Path, str]]:
    """Write the boot files of a kind; return each file with its path on the boot partition."""
    folder = work.folder(f"boot-{kind.name}")
    (folder / "initrd.gz").write_bytes(packed)
    (folder / "syslinux.cfg").write_text(
        "DEFAULT linux\nPROMPT 0\nTIMEOUT 0\nLABEL linux\n KERNEL /vmlinuz\n INITRD /initrd.gz\n"
        " APPEND console=ttyS0 quiet\n"
    )
    (folder / "grub.cfg").write_text(GRUB_CONFIGURATION)
    kernel, _ = kernel_of(tree)
    files = [(kernel, "vmlinuz"), (folder / "initrd.gz", "initrd.gz")]
    if kind.loader in {"bios", "iso"}:
        return [*files, (folder / "syslinux.cfg", "syslinux.cfg")]
    loaders = [(find(tree, GRUB), "EFI/BOOT/BOOTX64.EFI")]
    if kind.loader == "shim":
        loaders = [(find(tree, SHIM), "EFI/BOOT/BOOTX64.EFI"), (find(tree, GRUB), "EFI/BOOT/grubx64.efi")]
    return [*files, *loaders, (folder / "grub.cfg", "EFI/debian/grub.cfg")]


def disk(work: Work, kind: Kind, files: Sequence[tuple[Path, str]], more: int = 0) -> Path:
    """Write a raw disk with a boot partition and, if ``more`` is not 0, a second partition of ``more`` MiB."""
    count = (sum(path.stat().st_size for path, _ in files) // (1 << 20) + 4) * MIB
    raw = work.top / f"{kind.name}.raw"
    partitions = [(0x80, FAT if kind.loader == "bios" else ESP, MIB, count)]
    if more:
        partitions.append((0, 0x8E, MIB + count, more * MIB))
    with raw.open("wb") as out:
        out.truncate((2 * MIB + count + more * MIB) * SECTOR)
        out.write(partition_table(partitions, bios=kind.loader == "bios"))
    fat = f"{raw}@@{MIB * SECTOR}"
    run("mformat", "-i", fat, "-h", "255", "-s", "63", "-T", str(count), "-H", str(MIB), "-v", "KINDS", "::")
    made: set[Path] = set()
    for source, target in files:
        for folder in reversed(Path(target).parents[:-1]):
            if folder not in made:
                run("mmd", "-i", fat, f"::/{folder}")
                made.add(folder)
        run("mcopy", "-i", fat, source, f"::/{target}")
    if kind.loader == "bios":
        run("syslinux", "--install", "--offset", str(MIB * SECTOR), raw)
    return raw


def cd(work: Work, tree: Path, files: Sequence[tuple[Path, str]]) -> Path:
    """Write a CD that can be booted by BIOS."""
    top, image = work.folder("cd"), work.top / "iso.iso"
    for source, target in files:
        install(source, top / target, 0o644)
    install(find(tree, "usr/lib/ISOLINUX/isolinux.bin"), top / "isolinux/isolinux.bin", 0o644)
    install(find(tree, "usr/lib/syslinux/modules/bios/ldlinux.c32"), top / "isolinux/ldlinux.c32", 0o644)
    (top / "syslinux.cfg").rename(top / "isolinux/isolinux.cfg")
    words = ("-b", "isolinux/isolinux.bin", "-c", "isolinux/boot.cat", "-no-emul-boot", "-boot-load-size", "4")
    run("genisoimage", "-quiet", "-R", "-V", "KINDS", "-o", image, *words, "-boot-info-table", top)
    return image


def write_volume_group(work: Work, tree: Path, modules: Path, kind: Kind, raw: Path) -> None:
    """Let a guest create the volume group on the disk's second partition, because LVM works only on devices."""
    packed = work.top / "builder.gz"
    packed.write_bytes(ramdisk(work, tree, modules, kind, f"""\
lvm pvcreate -qq /dev/vda2 && lvm vgcreate -qq {LVM_GROUP} /dev/vda2 &&
lvm lvcreate -qq -Zn -Wn -l 100%FREE -n {LVM_VOLUME} {LVM_GROUP} && lvm vgmknodes
echo written by its builder | dd of=/dev/{LVM_GROUP}/{LVM_VOLUME} conv=sync 2>/dev/null && sync && echo BUILT
"""))  # fmt: skip
    kernel, _ = kernel_of(tree)
    words = ["qemu-system-x86_64", "-accel", "tcg", "-m", "256", "-nographic", "-no-reboot", "-nodefaults"]
    words += ["-serial", "stdio", "-drive", f"file={raw},format=raw,if=virtio"]
    words += ["-kernel", str(kernel), "-initrd", str(packed), "-append", "console=ttyS0 quiet panic=-1"]
    if "BUILT" not in run(*words, stdin=b""):
        raise BuildError("The volume group was not written.")


class Builder:
    """Builds disks in a folder; the packages are unpacked there once."""

    def __init__(self, destination: Path) -> None:
        self._destination, self._work = destination, Work(destination)
        self._tree = unpack(self._work)
        _, self._modules = kernel_of(self._tree)

    def build(self, kind: Kind) -> Path:
        """Build the disk of a kind; return its file."""
        work, tree, modules = self._work, self._tree, self._modules
        files = boot_files(work, tree, kind, ramdisk(work, tree, modules, kind))
        if kind.loader == "iso":
            return cd(work, tree, files)
        raw, target = disk(work, kind, files, more=16 if kind.lvm else 0), self._destination / f"{kind.name}.qcow2"
        if kind.lvm:
            write_volume_group(work, tree, modules, kind, raw)
        run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, target)
        raw.unlink()
        return target
