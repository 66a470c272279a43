"""Copying layers that are read through one layer alone into that layer, so that deleted volumes keep little data.

A frozen layer takes the data of those below it (``block-stream``).  It reads the same at every moment, and the state
changes when all of it has been copied and flushed: a crash loses nothing, and the next run continues with the rest.
Layers above are never changed, so this is safe while a daemon of this host has the volume open.  Where another daemon
reads the layer, QEMU's lock of the file refuses, and the layers wait until that one has ended.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from compute_agent.virt.driver import Stopped
from compute_agent.virt.errors import StoppedError
from compute_agent.volumes.driver import OpenVolume
from compute_agent.volumes.layers import IMAGE, Layer, Layers, State, node_name
from compute_agent.volumes.merging import concluded, dismissed, jobs_named
from compute_agent.volumes.qmp import DaemonError

JOB = "flatten-"
"""How names of jobs begin; the number of the layer follows."""
LONE = 2
"""Layers that one layer alone may read before they are copied: one is no more than the volume had from its source."""


@dataclass(frozen=True)
class Run:
    """Layers, from the top down, that are copied into the layer ``number`` of a volume, and what is below them."""

    number: int
    layers: tuple[str, ...]
    base: str


def depth(layers: Layers, volume_id: str, state: State) -> int:
    """Return how many other volumes, deleted ones included, the volume reads."""
    chain = layers.chain(f"{volume_id}/{state.top}")
    return len({_owner(name) for name in chain if not name.startswith(IMAGE)}) - 1


def all_below(layers: Layers, volume_id: str, state: State) -> Run | None:
    """Return the layers of all other volumes that the volume reads."""
    chain = layers.chain(f"{volume_id}/{state.top}")
    own = [name for name in chain if _owner(name) == volume_id]
    others = [name for name in chain[len(own) :] if not name.startswith(IMAGE)]
    return _run(own[-1], others, chain) if others else None


def lone_below(layers: Layers, volume_id: str, state: State, readers: Mapping[str, set[str]]) -> Run | None:
    """Return layers that are read through one layer of the volume alone, when they are worth copying.

    Own layers of which no other volume reads the upper ones are left to ``merging``.  ``readers``: of this pool.
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
    """Return for each layer that is needed the layers laid on it, and the volumes that write or name it."""
    states = layers.states()
    found: dict[str, set[str]] = {}
    for name in layers.needed():
        owner, _, number = name.partition("/")
        if name.startswith(IMAGE) or owner not in states or int(number) not in states[owner].layers:
            continue
        state = states[owner]
        mine = found.setdefault(name, set())
        if not state.gone and int(number) in {state.top, *state.snapshots.values()}:
            mine.add(owner)
        if below := state.layers[int(number)].below:
            found.setdefault(below, set()).add(name)
    return found


def flatten(layers: Layers, volume_id: str, state: State, run: Run, daemon: OpenVolume, stopped: Stopped) -> None:
    """Copy the layers, and save the state.  The layer must not be the top.  Raises DaemonError, StoppedError."""
    job = f"{JOB}{run.number}"
    base = {"base_node": node_name(run.base), "backing_file": str(layers.path(run.base))} if run.base else {}
    node = node_name(f"{volume_id}/{run.number}")
    daemon.execute("block-stream", job_id=job, device=node, auto_dismiss=False, **base)
    failed = concluded(daemon, job, stopped).get("error")
    dismissed(daemon, job)
    if failed and stopped():
        raise StoppedError("The layers were not copied to the end.")
    if failed:
        raise DaemonError(f"{job}: {failed}", "GenericError")
    _save(layers, volume_id, state, run, daemon)


def settle(daemon: OpenVolume) -> None:
    """End what a killed agent has begun: the state is as it was, and a repetition finds most or all data copied."""
    for job in jobs_named(daemon, JOB):
        concluded(daemon, job["id"], lambda: True)
        dismissed(daemon, job["id"])


def _save(layers: Layers, volume_id: str, state: State, run: Run, daemon: OpenVolume) -> None:
    """Write down that the layer has the data; before, make sure that it was flushed: QEMU does so to freeze it.

    The job is dismissed by then: until it is, QEMU 7.2 crashes when it is asked for its nodes.
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
            except DaemonError as error:  # it went with the layer above, or is a part of another node
                if not error.kind:
                    raise


def _run(upper: str, layers: list[str], chain: list[str]) -> Run:
    after = chain[chain.index(layers[-1]) + 1 :]
    return Run(int(upper.partition("/")[2]), tuple(layers), after[0] if after else "")


def _owner(name: str) -> str:
    return name.partition("/")[0]
