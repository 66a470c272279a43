"""Copies runs of layers that have only one reader into that reader, so that deleted volumes keep little data.

A frozen layer gets the data of the layers below it (``block-stream``). Its content does not change. The state is
changed after all data has been copied and flushed: a crash loses nothing, and the next run copies the rest. Layers
above are never changed, so this is safe while a daemon of this host has the volume open. If another daemon reads the
layer, QEMU's lock on the file refuses the copy, which is repeated after that daemon has ended.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from compute_agent.virt.driver import Stopped
from compute_agent.virt.errors import StoppedError
from compute_agent.volumes.daemons.qmp import DaemonError
from compute_agent.volumes.driver import OpenVolume
from compute_agent.volumes.files.layers import IMAGE, Layers, node_name
from compute_agent.volumes.files.merging import concluded, dismissed, jobs_named
from compute_agent.volumes.files.records import Layer, State

JOB = "flatten-"
"""The prefix of the names of jobs; the number of the layer follows."""
LONE = 2
"""Minimum number of layers to copy. A single layer contains only data that the volume reads from its source in any
case.
"""


@dataclass(frozen=True)
class Run:
    """Layers that are copied into the layer ``number`` of a volume, from the top down, and the layer below them."""

    number: int
    layers: tuple[str, ...]
    base: str


def depth(layers: Layers, volume_id: str, state: State) -> int:
    """Return from how many other volumes, including deleted ones, the volume reads data."""
    chain = layers.chain(f"{volume_id}/{state.top}")
    return len({_owner(name) for name in chain if not name.startswith(IMAGE)}) - 1


def all_below(layers: Layers, volume_id: str, state: State) -> Run | None:
    """Return all layers that the volume reads from other volumes, as one run; None if there are none."""
    chain = layers.chain(f"{volume_id}/{state.top}")
    own = [name for name in chain if _owner(name) == volume_id]
    others = [name for name in chain[len(own) :] if not name.startswith(IMAGE)]
    return _run(own[-1], others, chain) if others else None


def lone_below(layers: Layers, volume_id: str, state: State, readers: Mapping[str, set[str]]) -> Run | None:
    """Return a run of at least ``LONE`` layers below one of the volume's own layers, each read only by the layer above
    it; None if there is none.

    A run that begins with the volume's own layer is returned only if another volume needs the layer above it. Otherwise
    the run is left to ``merging``. ``readers``: layer → its readers in this pool.
    """
    chain = layers.chain(f"{volume_id}/{state.top}")
    own = [name for name in chain if _owner(name) == volume_id]
    for upper in own:
        run: list[str] = []
        for name in chain[chain.index(upper) + 1 :]:
            if name.startswith(IMAGE) or readers.get(name) != {run[-1] if run else upper}:
                break
            run.append(name)
        if len(run) < LONE:
            continue
        if _owner(run[0]) != volume_id or upper in layers.needed(but=volume_id):
            return _run(upper, run, chain)
    return None


def readers_of(layers: Layers) -> dict[str, set[str]]:
    """Return the readers of each needed layer: the layers based on it, and the volume if the layer is its top or a
    snapshot.
    """
    states = layers.states()
    result: dict[str, set[str]] = {}
    for name in layers.needed():
        owner, _, number = name.partition("/")
        if name.startswith(IMAGE) or owner not in states or int(number) not in states[owner].layers:
            continue
        state = states[owner]
        mine = result.setdefault(name, set())
        if not state.gone and int(number) in {state.top, *state.snapshots.values()}:
            mine.add(owner)
        if below := state.layers[int(number)].below:
            result.setdefault(below, set()).add(name)
    return result


def flatten(layers: Layers, volume_id: str, state: State, run: Run, daemon: OpenVolume, stopped: Stopped) -> None:
    """Copy the layers into the layer ``run.number``, which must not be the top, and save the state.

    Raises DaemonError, StoppedError.
    """
    job = f"{JOB}{run.number}"
    base = {"base_node": node_name(run.base), "backing_file": str(layers.path(run.base))} if run.base else {}
    node = node_name(f"{volume_id}/{run.number}")
    daemon.execute("block-stream", job_id=job, device=node, auto_dismiss=False, **base)
    failed = concluded(daemon, job, stopped).get("error")
    dismissed(daemon, job)
    if failed and stopped():
        raise StoppedError("The layers were not copied completely.")
    if failed:
        raise DaemonError(f"{job}: {failed}", "GenericError")
    _save(layers, volume_id, state, run, daemon)


def settle(daemon: OpenVolume) -> None:
    """End the jobs of a killed agent. The state is unchanged, and a repetition finds most or all data
    already copied.
    """
    for job in jobs_named(daemon, JOB):
        concluded(daemon, job["id"], lambda: True)
        dismissed(daemon, job["id"])


def _save(layers: Layers, volume_id: str, state: State, run: Run, daemon: OpenVolume) -> None:
    """Save that the layer has the data of the layers below it. First check that the data was flushed: QEMU flushes a
    layer before it is read-only again.

    The caller has dismissed the job: QEMU 7.2 crashes if it is asked for its nodes before that.
    """
    node = node_name(f"{volume_id}/{run.number}")
    nodes = {each["node-name"]: each for each in daemon.execute("query-named-block-nodes", flat=True)}
    if not nodes[node]["ro"]:
        raise DaemonError(f"{node}: the layer was not frozen again", "GenericError")
    state.layers[run.number] = Layer(below=run.base, encrypted=state.layers[run.number].encrypted)
    layers.save(volume_id, state)
    for name in map(node_name, run.layers):
        if name in nodes:
            try:
                daemon.execute("blockdev-del", node_name=name)
            except DaemonError as error:  # it was removed with the layer above, or is a part of another node
                if not error.kind:
                    raise


def _run(upper: str, layers: list[str], chain: list[str]) -> Run:
    after = chain[chain.index(layers[-1]) + 1 :]
    return Run(int(upper.partition("/")[2]), tuple(layers), after[0] if after else "")


def _owner(name: str) -> str:
    return name.partition("/")[0]
