"""Run another program with restricted rights: ``python confine.py JSON PROGRAM ARGUMENT…`` (see ``Rights``).

It runs as a script, with only the standard library, between the agent and a program that reads tenants' data. In a
child process it

1. mounts the directories that the program needs in its own mount namespace, under their usual paths, even if the
   account may not enter a parent directory;
2. changes to the account and drops every capability permanently, or stays root with the specified capabilities, and
   cannot gain rights by executing programs;
3. forbids the system calls that such programs do not need (seccomp), with the library that QEMU uses itself;
4. executes the program, which cannot execute another one unless ``execve`` is allowed: the kernel asks the parent
   process about each execution. The parent allows the first one and closes the descriptor; all later ones then fail
   (seccomp_unotify(2)).

Its exit code is the program's.
"""

import ctypes
import fcntl
import json
import os
import resource
import shutil
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import Any, NoReturn

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_BIND, MS_REC, MS_SLAVE = 0x1000, 0x4000, 0x80000
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, LAST_CAPABILITY = 1, 24, 38, 63
ALLOW, ASK, REFUSE, EPERM, ENOSYS = 0x7FFF0000, 0x7FC00000, 0x00050000, 1, 38
QUESTION, ANSWER = struct.Struct("=QII64x"), struct.Struct("=QqiI")
"""``seccomp_notif`` and ``seccomp_notif_resp``."""
RECEIVE, SEND, CONTINUE = 0xC0502100, 0xC0182101, 1
NOT_STARTED = 126
"""The exit code if the program was not started."""
GREATER, MASKED_EQUAL = 6, 7
NETLINK = 16
"""The highest socket family that name resolution and NBD need."""
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
"""Administration of the machine, other processes, kernel interfaces with a history of vulnerabilities."""
libc = ctypes.CDLL(None, use_errno=True)


class Comparison(ctypes.Structure):
    """libseccomp's ``scmp_arg_cmp``."""

    _fields_ = (("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))


def main() -> None:
    """Restrict a child process as the first argument specifies, and execute the program in it."""
    rights, program = json.loads(sys.argv[1]), sys.argv[2:]
    path = shutil.which(program[0])
    if path is None:
        sys.exit(f"{program[0]} is not installed")
    ours, theirs = socket.socketpair()
    starter, child = os.getpid(), os.fork()
    if not child:
        ours.close()
        become(path, program, rights | {"starter": starter}, theirs)
    theirs.close()
    allow_first(ours)
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status) & 0xFF)


def become(path: str, program: list[str], rights: dict[str, Any], parent: socket.socket) -> NoReturn:
    """Execute the program. Exits the process on failure."""
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the memory contains keys
        for name, most in rights["limits"].items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
        if rights["uid"]:
            show([Path(each) for each in rights["places"]], rights["uid"], rights["gid"])
        for number in {*range(LAST_CAPABILITY + 1)} - {*rights["capabilities"]}:
            libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)  # numbers above the kernel's last fail
        if rights["uid"]:
            os.setgroups([])
            os.setresgid(rights["gid"], rights["gid"], rights["gid"])
            os.setresuid(rights["uid"], rights["uid"], rights["uid"])
        check(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))  # a daemon's fork does not inherit it
        if os.getppid() != rights["starter"]:
            os._exit(NOT_STARTED)
        check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        notifications = forbid(set(rights["allowed"]))
        socket.send_fds(parent, [b"1"], notifications)
        for each in notifications:
            os.close(each)
        parent.close()
        os.execv(path, program)  # noqa: S606
    except BaseException as error:  # noqa: BLE001 - the child must exit
        os.write(2, f"{program[0]} was not started: {error!r}\n".encode())
    os._exit(NOT_STARTED)


def allow_first(child: socket.socket) -> None:
    """Allow the child to execute one program, and no other afterwards."""
    _, descriptors, _, _ = socket.recv_fds(child, 1, 1)
    for notification in descriptors:
        question = bytearray(QUESTION.size)
        fcntl.ioctl(notification, RECEIVE, question)
        number, _, _ = QUESTION.unpack(question)
        fcntl.ioctl(notification, SEND, bytearray(ANSWER.pack(number, 0, 0, CONTINUE)))
        os.close(notification)


def show(places: list[Path], uid: int, gid: int) -> None:
    """Give the account access to the directories and files. If the account may not enter a parent directory, mount a
    directory over it that contains only these directories and files.
    """
    hidden = [each for each in places if each.exists() and obstacle(each, uid, gid) is not None]
    if not hidden:
        return
    check(libc.unshare(CLONE_NEWNS))
    check(libc.mount(b"none", b"/", None, MS_SLAVE | MS_REC, None))
    opened = [(place, os.open(place, os.O_PATH), place.is_dir()) for place in hidden]
    os.umask(0o066)
    for place, descriptor, is_folder in opened:
        covered = obstacle(place, uid, gid)
        if covered is not None:  # it is not below one that is already covered
            check(libc.mount(b"tmpfs", os.fsencode(covered), b"tmpfs", 0, b"mode=0711,size=1m"))
        (place if is_folder else place.parent).mkdir(parents=True, exist_ok=True)
        if not is_folder:
            place.touch()
        check(libc.mount(f"/proc/self/fd/{descriptor}".encode(), os.fsencode(place), None, MS_BIND | MS_REC, None))
        os.close(descriptor)


def obstacle(place: Path, uid: int, gid: int) -> Path | None:
    """Return the topmost parent directory that the account may not enter."""
    for above in reversed(place.parents):
        if not above.exists():
            return None
        about = above.stat()
        if not about.st_mode >> (6 if about.st_uid == uid else 3 if about.st_gid == gid else 0) & 1:
            return above
    return None


def forbid(allowed: set[str]) -> list[int]:
    """Load a filter for this process and its descendants that forbids the system calls ``FORBIDDEN``, except those in
    ``allowed``.

    Returns the descriptor through which the kernel asks about program executions; an empty list if ``execve`` is
    allowed.
    """
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(ALLOW)))

    def refuse(name: str, number: int, *comparisons: Comparison) -> None:
        call = library.seccomp_syscall_resolve_name(name.encode())
        if call >= 0:  # the processor has it
            many = ctypes.c_uint(len(comparisons))
            array = (Comparison * len(comparisons))(*comparisons)
            action = REFUSE | number if number else ASK
            if library.seccomp_rule_add_array(context, ctypes.c_uint32(action), call, many, array) != 0:
                raise OSError(f"seccomp: {name}")

    for name in FORBIDDEN:
        if name not in allowed:
            refuse(name, EPERM)
    refuse("clone3", ENOSYS)  # its flags cannot be inspected: programs fall back to clone
    refuse("clone", EPERM, Comparison(0, MASKED_EQUAL, CLONE_NEWUSER, CLONE_NEWUSER))
    refuse("socket", EPERM, Comparison(0, GREATER, NETLINK, 0))
    asks = "execve" not in allowed
    if asks:
        refuse("execve", 0)
    if library.seccomp_load(context) != 0:
        raise OSError("seccomp: the filter was not loaded")
    notifications = [library.seccomp_notify_fd(context)] if asks else []
    if any(each < 0 for each in notifications):
        raise OSError("seccomp: no notifications are available; they need Linux 5.5 and libseccomp 2.5")
    library.seccomp_release(context)
    return notifications


def check(result: int) -> None:
    """Raise OSError if a call of the C library failed."""
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    main()
