"""Become another program with fewer rights: ``python confine.py JSON PROGRAM ARGUMENT…`` (see ``Rights``).

It runs as a script, with the standard library alone, between the agent and a storage daemon.  It

1. shows the folders that the program needs at their own names, also below a folder that its account may not enter, in
   a mount namespace of its own;
2. becomes the account, gives up every capability for good, and can gain no rights by running programs;
3. forbids the system calls that no storage daemon needs (seccomp), by the library that QEMU uses itself.
"""

import ctypes
import json
import os
import resource
import sys
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_BIND, MS_REC, MS_SLAVE = 0x1000, 0x4000, 0x80000
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, LAST_CAPABILITY = 24, 38, 63
ALLOW, REFUSE, EPERM, ENOSYS = 0x7FFF0000, 0x00050000, 1, 38
GREATER, MASKED_EQUAL = 6, 7
NETLINK = 16
"""The highest family of sockets that resolving names and NBD need."""
NAMES = (
    "acct add_key adjtimex bpf chroot clock_adjtime clock_settime create_module delete_module execveat "
    "fanotify_init finit_module fsconfig fsmount fsopen fspick init_module io_uring_enter io_uring_register "
    "io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl lookup_dcookie modify_ldt mount "
    "mount_setattr move_mount name_to_handle_at nfsservctl open_by_handle_at open_tree perf_event_open "
    "personality pidfd_getfd pivot_root process_madvise process_vm_readv process_vm_writev ptrace quotactl "
    "quotactl_fd reboot request_key seccomp setdomainname setfsgid setfsuid setgid setgroups sethostname setns "
    "setregid setresgid setresuid setreuid settimeofday setuid swapoff swapon sysfs syslog umount umount2 unshare "
    "uselib userfaultfd ustat vhangup vm86 vm86old vmsplice"
)
FORBIDDEN = tuple(NAMES.split())
"""Administration of the machine, other processes, kernel interfaces with a long record of errors."""
libc = ctypes.CDLL(None, use_errno=True)


class Comparison(ctypes.Structure):
    """libseccomp's ``scmp_arg_cmp``."""

    _fields_ = (("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))


def main() -> None:
    """Give up what the first argument says, and become the program."""
    rights, program = json.loads(sys.argv[1]), sys.argv[2:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the memory has keys
    if rights["uid"]:
        show([Path(each) for each in rights["folders"]], rights["uid"], rights["gid"])
        for number in range(LAST_CAPABILITY + 1):
            libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)  # those above the kernel's last are refused
        os.setgroups([])
        os.setresgid(rights["gid"], rights["gid"], rights["gid"])
        os.setresuid(rights["uid"], rights["uid"], rights["uid"])
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    forbid()
    os.execvp(program[0], program)  # noqa: S606


def show(folders: list[Path], uid: int, gid: int) -> None:
    """Let the account reach the folders; what else is below a folder that it may not enter disappears for it."""
    hidden = [each for each in folders if each.is_dir() and obstacle(each, uid, gid) is not None]
    if not hidden:
        return
    check(libc.unshare(CLONE_NEWNS))
    check(libc.mount(b"none", b"/", None, MS_SLAVE | MS_REC, None))
    opened = [(folder, os.open(folder, os.O_PATH | os.O_DIRECTORY)) for folder in hidden]
    os.umask(0o066)
    for folder, descriptor in opened:
        covered = obstacle(folder, uid, gid)
        if covered is not None:  # it is not below one that is covered already
            check(libc.mount(b"tmpfs", os.fsencode(covered), b"tmpfs", 0, b"mode=0711,size=1m"))
        folder.mkdir(parents=True, exist_ok=True)
        check(libc.mount(f"/proc/self/fd/{descriptor}".encode(), os.fsencode(folder), None, MS_BIND | MS_REC, None))
        os.close(descriptor)


def obstacle(folder: Path, uid: int, gid: int) -> Path | None:
    """Return the highest folder above this one that the account may not enter."""
    for above in reversed(folder.parents):
        if not above.exists():
            return None
        about = above.stat()
        if not about.st_mode >> (6 if about.st_uid == uid else 3 if about.st_gid == gid else 0) & 1:
            return above
    return None


def forbid() -> None:
    """Load the filter of system calls for this process and all that it becomes or starts."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(ALLOW)))

    def refuse(name: str, number: int, *comparisons: Comparison) -> None:
        call = library.seccomp_syscall_resolve_name(name.encode())
        if call >= 0:  # this processor has it
            many = ctypes.c_uint(len(comparisons))
            array = (Comparison * len(comparisons))(*comparisons)
            if library.seccomp_rule_add_array(context, ctypes.c_uint32(REFUSE | number), call, many, array) != 0:
                raise OSError(f"seccomp: {name}")

    for name in FORBIDDEN:
        refuse(name, EPERM)
    refuse("clone3", ENOSYS)  # its flags cannot be read: programs use clone then
    refuse("clone", EPERM, Comparison(0, MASKED_EQUAL, CLONE_NEWUSER, CLONE_NEWUSER))
    refuse("socket", EPERM, Comparison(0, GREATER, NETLINK, 0))
    if library.seccomp_load(context) != 0:
        raise OSError("seccomp: the filter was not loaded")
    library.seccomp_release(context)


def check(result: int) -> None:
    """Raise OSError for what the C library could not do."""
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    main()
