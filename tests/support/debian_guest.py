"""A Debian guest with cloud-init, built from packages of this machine's Debian without root and without a mount.

Its programs are Debian's, started in the order that Debian's init scripts have; what starts them is busybox, because
systemd takes a slow processor half a minute.  It knows no seed: only the datasource OpenStack.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.guest_image import __main__ as recipe
from tools.guest_image.modules import copy_modules

CHECKOUT = Path(__file__).resolve().parents[2]
FOLDER = CHECKOUT / ".cache" / "debian"
IMAGE = "debian.qcow2"
PROGRAMS = (
    "cloud-init", "python3", "ifupdown", "isc-dhcp-client", "iproute2", "openssh-server", "openssh-client", "passwd",
    "login", "util-linux", "coreutils", "dash", "bash", "sed", "grep", "mawk", "findutils", "hostname", "base-files",
    "base-passwd", "debianutils", "mount", "sysvinit-utils", "netbase", "busybox-static", "kmod",
)  # fmt: skip
NEEDLESS = re.compile(
    r"^(perl.*|libperl.*|.*-perl|cdebconf|libdebian-installer.*|libnewt.*|libslang.*|libelogind.*|debconf|usrmerge"
    r"|usr-is-merged|init-system-helpers|dpkg|install-info|locales|libc-l10n|mailcap|mime-support|media-types|gdisk|fdisk|eject"
    r"|ucf|libgdbm.*|libicu.*|dmsetup|libdevmapper.*|systemd.*|libc6-dev|tzdata)$"
)
"""What is needed to install packages, or for what is not tried."""
PRUNED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "usr/share/i18n",
          "usr/lib/x86_64-linux-gnu/gconv", "usr/share/perl5", "usr/lib/python3.*/test", "usr/share/bash-completion",
          "usr/lib/python3.*/idlelib", "usr/lib/python3.*/lib2to3", "usr/lib/python3.*/pydoc_data")  # fmt: skip
INITTAB = """\
::sysinit:/etc/rc.S
::ctrlaltdel:/bin/busybox reboot
::shutdown:/bin/busybox sync
"""
START = """\
#!/bin/sh
# What Debian's own scripts do, in their order.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
say() { echo "$*" >/dev/console; }
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /run
mkdir -p /run/network /run/sshd /run/lock
for module in $(cat /modules/order); do busybox insmod "/modules/$module" 2>/dev/null; done
ip link set lo up
hostname localhost
for script in cloud-init-local networking cloud-init cloud-config cloud-final; do
  say "start $script $(cut -d' ' -f1 /proc/uptime)"
  "/etc/init.d/$script" start >/dev/console 2>&1
done
/usr/sbin/sshd
say "=== Debian guest: $(hostname) up $(cut -d' ' -f1 /proc/uptime) s ==="
"""
CLOUD = """\
datasource_list: [OpenStack]
ssh_genkeytypes: [ed25519]
disable_ec2_metadata: false
cloud_init_modules: [write-files, set_hostname, update_hostname, users-groups, ssh]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts-user, final-message]
"""
"""The steps that are looked at: each of the others takes a slow processor seconds."""
SSHD = """\
UsePAM yes
PasswordAuthentication no
KbdInteractiveAuthentication no
HostKey /etc/ssh/ssh_host_ed25519_key
Subsystem sftp internal-sftp
"""
PAM = """\
auth required pam_deny.so
account required pam_permit.so
password required pam_deny.so
session required pam_permit.so
"""
"""Whoever has a key comes in: an account without a password is no locked one."""


def debian_image() -> Path:
    """Return the image, building it when its recipe has changed; test processes wait for one another."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
        kept = FOLDER / "recipe"
        if not kept.exists() or kept.read_text() != recipe or not (FOLDER / IMAGE).exists():
            as_root = ["unshare", "--map-root-user"] if os.geteuid() else []
            path = {"PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'bin/libexec'}"}
            subprocess.run([*as_root, "/usr/bin/python3", "-P", __file__, FOLDER], check=True, timeout=300,
                           env=os.environ | path)  # fmt: skip
            kept.write_text(recipe)
    return FOLDER / IMAGE


def build(destination: Path) -> None:
    """Build the image in ``destination``."""
    with tempfile.TemporaryDirectory(prefix=".debian-", dir=destination) as folder:
        work = recipe.Work(Path(folder))
        kernel_tree, _ = recipe.unpack_packages(work)
        kernel, modules = recipe.kernel_of(kernel_tree)
        root = work.folder("debian")
        _unpack(work.folder("debs"), root)
        _configure(root)
        copy_modules(modules, root / "modules", recipe.ROOT_MODULES)
        ramdisk = recipe.build_ramdisk(work, kernel_tree, modules)
        # The guest's own Python, which may be another one than the machine's.
        compiled = ["chroot", root, "/usr/bin/python3", "-m", "compileall", "-q", "/usr/lib/python3"]
        versions = [f"/{path.relative_to(root)}" for path in root.glob("usr/lib/python3.*")]
        subprocess.run([*compiled, *versions], check=False, stdout=subprocess.DEVNULL, timeout=120)
        assert any((root / "usr/lib/python3/dist-packages/cloudinit/__pycache__").iterdir())
        image = work.top / "root.ext4"
        recipe.run("mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-O", "^metadata_csum,^64bit", "-L", recipe.LABEL,
                   "-E", "root_owner=0:0", "-d", root, image, "320M")  # fmt: skip
        disk = recipe.build_disk(work, kernel, ramdisk, image)
        recipe.run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", disk, work.top / IMAGE)
        (work.top / IMAGE).replace(destination / IMAGE)


def _unpack(debs: Path, root: Path) -> None:
    names = [name for name in recipe.dependencies(*PROGRAMS, recurse=True) if not NEEDLESS.match(name)]
    recipe.run("apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", *names, cwd=debs)
    for package in sorted(debs.glob("*.deb")):
        recipe.run("dpkg-deb", "--extract", package, root)
    for path in [path for name in PRUNED for path in root.glob(name)]:
        shutil.rmtree(path)


def _configure(root: Path) -> None:
    """Do what the packages' scripts would have done."""
    for name in ("proc", "sys", "dev", "run", "tmp", "root", "home", "etc/network/interfaces.d", "var/lib/dhcp",
                 "etc/sudoers.d", "usr/local/bin", "var/log"):  # fmt: skip
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    for name in ("passwd", "group"):
        shutil.copy(root / f"usr/share/base-passwd/{name}.master", root / f"etc/{name}")
    with (root / "etc/passwd").open("a") as file:
        file.write("sshd:x:101:65534::/run/sshd:/usr/sbin/nologin\n")
    (root / "etc/shadow").write_text("root:*:19000:0:99999:7:::\n")
    (root / "etc/network/interfaces").write_text(
        "auto lo\niface lo inet loopback\nsource /etc/network/interfaces.d/*\n"
    )
    (root / "etc/ssh").mkdir(exist_ok=True)
    (root / "etc/ssh/sshd_config").write_text(SSHD)
    for name in ("sshd", "other"):
        (root / "etc/pam.d" / name).write_text(PAM)
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    (root / "etc/fstab").write_text("")  # dhclient declines its address without one
    (root / "etc/cloud/cloud.cfg.d/90_novella.cfg").write_text(CLOUD)
    (root / "etc/inittab").write_text(INITTAB)
    (root / "etc/rc.S").write_text(START)
    (root / "etc/rc.S").chmod(0o755)
    busybox = next(root / name for name in ("bin/busybox", "usr/bin/busybox") if (root / name).exists())
    for link, target in (("sbin/init", f"/{busybox.relative_to(root)}"), ("bin/sh", "dash"), ("usr/bin/awk", "mawk")):
        path = root / link
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
