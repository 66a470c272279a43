"""Merges frozen layers of an open volume that are not snapshots, so that chains stay short.

Only frozen layers are merged, each into the layer below (``block-commit``). The earlier chain can be read with the same
content until the state changes, so a crash at any moment loses nothing.
"""

import contextlib
import time
from typing import Any

from compute_agent.virt.driver import Stopped
from compute_agent.virt.errors import StoppedError
from compute_agent.virt.processes import progress
from compute_agent.volumes.daemons.qmp import DaemonError
from compute_agent.volumes.driver import OpenVolume
from compute_agent.volumes.files.layers import Layers, node_name
from compute_agent.volumes.files.records import Layer, State

JOB = "merge-"
"""The prefix of the names of jobs; the numbers of the three layers follow."""
LOOK_EVERY = 0.02
Three = tuple[int, int, int]
"""The numbers of three consecutive layers of a volume, from the top down. The second is merged into the third."""


def merge(layers: Layers, volume_id: str, state: State, daemon: OpenVolume, stopped: Stopped) -> None:
    """Merge all layers that can be merged, and save the state after each. Raises DaemonError, StoppedError."""
    while (three := mergeable(layers, volume_id, state)) is not None:
        _merge(layers, volume_id, state, three, daemon, stopped)


def mergeable(layers: Layers, volume_id: str, state: State) -> Three | None:
    """Return three consecutive layers of the volume, from the top down, of which the second can be merged into the
    third. None if there are none.
    """
    needed, named = layers.needed(but=volume_id), state.named()
    own = [
        int(name.partition("/")[2])
        for name in layers.chain(f"{volume_id}/{state.top}")
        if name.startswith(f"{volume_id}/")
    ]
    for over, upper, lower in zip(own, own[1:], own[2:], strict=False):
        if lower not in named and not needed & {f"{volume_id}/{upper}", f"{volume_id}/{lower}"}:
            return over, upper, lower
    return None


def settle(layers: Layers, volume_id: str, state: State, daemon: OpenVolume) -> None:
    """Complete the merges that a killed agent began, and save their results in the state."""
    for job in jobs_named(daemon, JOB):
        three = _three(job["id"])
        failed = concluded(daemon, job["id"], lambda: True).get("error")
        if not failed and three[1] in state.layers:
            _write_down(layers, volume_id, state, three)
        _forget(volume_id, state, three, daemon)


def _merge(layers: Layers, volume_id: str, state: State, three: Three, daemon: OpenVolume, stopped: Stopped) -> None:
    _over, upper, lower = three
    job = JOB + "-".join(map(str, three))
    daemon.execute(
        "block-commit",
        job_id=job,
        device=node_name(f"{volume_id}/{state.top}"),
        top_node=node_name(f"{volume_id}/{upper}"),
        base_node=node_name(f"{volume_id}/{lower}"),
        backing_file=str(layers.path(f"{volume_id}/{lower}")),
        auto_dismiss=False,
    )
    failed = concluded(daemon, job, stopped).get("error")
    if not failed:
        _write_down(layers, volume_id, state, three)
    _forget(volume_id, state, three, daemon)
    if failed and stopped():
        raise StoppedError("The layers were not merged completely.")
    if failed:
        raise DaemonError(f"{job}: {failed}", "GenericError")


def _write_down(layers: Layers, volume_id: str, state: State, three: Three) -> None:
    over, upper, lower = three
    for name, number in list(state.snapshots.items()):
        if number == upper:
            state.snapshots[name] = lower
    state.layers[over] = Layer(below=f"{volume_id}/{lower}", encrypted=state.layers[over].encrypted)
    del state.layers[upper]
    layers.save(volume_id, state)


def _forget(volume_id: str, state: State, three: Three, daemon: OpenVolume) -> None:
    """Dismiss a job that has ended and is saved in the state, and remove the node of the merged layer."""
    dismissed(daemon, JOB + "-".join(map(str, three)))
    if three[1] not in state.layers:
        try:
            daemon.execute("blockdev-del", node_name=node_name(f"{volume_id}/{three[1]}"))
        except DaemonError as error:
            if not error.kind:
                raise


def _three(job: str) -> Three:
    over, upper, lower = map(int, job.removeprefix(JOB).split("-"))
    return over, upper, lower


def jobs_named(daemon: OpenVolume, prefix: str) -> list[dict[str, Any]]:
    """Return the daemon's jobs whose ids begin with ``prefix``."""
    return [job for job in daemon.execute("query-jobs") if job["id"].startswith(prefix)]


def dismissed(daemon: OpenVolume, job_id: str) -> None:
    """Dismiss a job that has ended and is saved in the state."""
    daemon.execute("job-dismiss", id=job_id)


def concluded(daemon: OpenVolume, job_id: str, stopped: Stopped) -> dict[str, Any]:
    """Wait until a job has ended, and return its status. The daemon keeps the job until it is dismissed."""
    watched = progress.Watched()
    while True:
        (job,) = [each for each in jobs_named(daemon, job_id) if each["id"] == job_id]
        if job["status"] == "concluded":
            return job
        if stopped():
            with contextlib.suppress(DaemonError):  # it has ended meanwhile
                daemon.execute("job-cancel", id=job_id)
        watched.look(job["current-progress"])
        time.sleep(LOOK_EVERY)
