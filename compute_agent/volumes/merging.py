"""Merging frozen layers of an open volume that nobody's snapshot is, so that chains stay short.

Only what is frozen is merged, into what lies below it (``block-commit``): until the state says so, the chain from
before reads the same, so a crash at any moment loses nothing.
"""

import time

from compute_agent.virt import progress
from compute_agent.virt.driver import Stopped
from compute_agent.virt.errors import StoppedError
from compute_agent.volumes.driver import OpenVolume
from compute_agent.volumes.layers import Layer, Layers, State, node_name
from compute_agent.volumes.qmp import DaemonError

JOB = "merge"
LOOK_EVERY = 0.02


def merge(layers: Layers, volume_id: str, state: State, daemon: OpenVolume, stopped: Stopped) -> None:
    """Merge what can be merged, and write the state after each.  Raises DaemonError, StoppedError."""
    while (found := mergeable(layers, volume_id, state)) is not None:
        over, upper, lower = found
        _commit(layers, volume_id, state.top, (over, upper, lower), daemon, stopped)
        for name, number in list(state.snapshots.items()):
            if number == upper:
                state.snapshots[name] = lower
        state.layers[over] = Layer(below=f"{volume_id}/{lower}", encrypted=state.layers[over].encrypted)
        del state.layers[upper]
        layers.save(volume_id, state)


def mergeable(layers: Layers, volume_id: str, state: State) -> tuple[int, int, int] | None:
    """Return three layers of the volume, each laid on the next, of which the second can be merged into the third."""
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


def _commit(
    layers: Layers, volume_id: str, top: int, three: tuple[int, int, int], daemon: OpenVolume, stopped: Stopped
) -> None:
    from_node, to_node = (node_name(f"{volume_id}/{number}") for number in three[1:])
    daemon.execute(
        "block-commit",
        job_id=JOB,
        device=node_name(f"{volume_id}/{top}"),
        top_node=from_node,
        base_node=to_node,
        backing_file=str(layers.path(f"{volume_id}/{three[2]}")),
        auto_dismiss=False,
    )
    _until_done(daemon, stopped)
    for node in (from_node,):
        try:
            daemon.execute("blockdev-del", node_name=node)
        except DaemonError as error:
            if not error.kind:
                raise


def _until_done(daemon: OpenVolume, stopped: Stopped) -> None:
    watched = progress.Watched()
    while True:
        (job,) = [each for each in daemon.execute("query-jobs") if each["id"] == JOB]
        if job["status"] == "concluded":
            daemon.execute("job-dismiss", id=JOB)
            if stopped() and job.get("error"):
                raise StoppedError("The layers were not merged to the end.")
            if job.get("error"):
                raise DaemonError(f"{JOB}: {job['error']}", "GenericError")
            return
        if stopped():
            daemon.execute("job-cancel", id=JOB)
        watched.look(job["current-progress"])
        time.sleep(LOOK_EVERY)
