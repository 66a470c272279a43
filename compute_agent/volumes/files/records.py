"""The record of a volume's layers and snapshots."""

import msgspec


class Layer(msgspec.Struct, frozen=True):
    """One file of a volume, and the layer or image that it is based on."""

    below: str = ""
    encrypted: bool = False


class State(msgspec.Struct, kw_only=True):
    """The layers and snapshots of one volume."""

    size: int  # bytes
    top: int = 1
    layers: dict[int, Layer]
    snapshots: dict[str, int] = {}
    gone: bool = False
    previous: str = ""
    """The id that the volume had before it was renamed. ``below`` of its layers may still contain it."""

    def rename(self, volume_id: str) -> None:
        """Let the layers refer to each other by the volume's id, after the folder was renamed."""
        before, after = f"{self.previous}/", f"{volume_id}/"
        for number, layer in self.layers.items():
            if layer.below.startswith(before):
                self.layers[number] = msgspec.structs.replace(layer, below=after + layer.below.removeprefix(before))

    @property
    def next(self) -> int:
        """Return the number of the next layer."""
        return max(self.layers) + 1

    def named(self) -> dict[int, list[str]]:
        """Return the names of the snapshots, by the number of their layer."""
        result: dict[int, list[str]] = {}
        for name, number in self.snapshots.items():
            result.setdefault(number, []).append(name)
        return result
