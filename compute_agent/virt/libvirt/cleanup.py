"""Removal of all guests of an agent's own libvirt, embedded or a daemon, for ``bin/up --clean``."""

import shutil

from compute_agent.settings import AgentSettings
from compute_agent.virt.libvirt.paths import HostPaths
from compute_agent.virt.libvirt.tpm import PID_FILE
from compute_agent.virt.processes.processes import is_ours, kill, read_pid


def remove_everything(settings: AgentSettings) -> list[str]:
    """Kill the guests of this agent's own libvirt and remove their files; return a line for each.

    No agent may use the state directory at the same time. A process is killed only if its pid file is below libvirt's
    root and its command line contains the short path of the state directory, where its disks are. Guests of another
    libvirt, which is not the agent's own, are not removed. Idempotent.
    """
    paths = HostPaths(settings.state_dir.absolute())
    done = []
    for pid_file in sorted(paths.state.glob("libvirt/run/qemu/*.pid")):
        pid = read_pid(pid_file)
        if pid is not None and is_ours(pid, [paths.short]) and kill(pid):
            done.append(f"guest {pid_file.stem} (process {pid})")
    for pid_file in sorted(paths.instances.glob(f"*/tpm/{PID_FILE}")):
        pid = read_pid(pid_file)
        if pid is not None and is_ours(pid, [pid_file.parent]) and kill(pid):
            done.append(f"TPM of guest {pid_file.parent.parent.name} (process {pid})")
    for folder in (paths.state / "libvirt", paths.instances, paths.tpm_keys, paths.covers):
        if folder.exists():
            shutil.rmtree(folder)
            done.append(str(folder))
    paths.remove_short()
    return done
