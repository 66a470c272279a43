"""A counter that a guest writes to its disk and prints on its console, after it has read its last number from the disk
again: it shows lost writes, and the writes of a second guest. It continues with its last number when the guest boots.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from types import TracebackType

BEGINS = "+counting"
BLOCK = 256_000
"""The block of 4 KiB with the number, behind the data of the file system, whose files a killed guest may damage."""
SCRIPT = "/root/counts"
COUNTS = f"""
[ "$0" = {SCRIPT} ] || {{ cp "$0" {SCRIPT}; echo "::once:{SCRIPT}" >>/etc/inittab; sync; }}
on_disk() {{ dd if=/dev/vda bs=4k skip={BLOCK} count=1 iflag=direct 2>/dev/null | tr -dc 0-9; }}
(n=$(on_disk); n=${{n:-0}}; echo "{BEGINS} $n" >/dev/ttyS0
while :; do
  found=$(on_disk); [ "${{found:-0}}" = "$n" ] || echo "+lost $n $found" >/dev/ttyS0
  n=$((n+1))
  printf '%-4096s' $n | dd of=/dev/vda bs=4k seek={BLOCK} count=1 oflag=direct conv=notrunc,fsync 2>/dev/null
  echo "+counted $n" >/dev/ttyS0; usleep 200000
done) >/dev/null 2>&1 </dev/null &
"""
"""The script of a guest that counts. It starts again whenever the guest boots."""
INTERVAL = 0.1
_SAYS = re.compile(r"\+(counted|counting|lost) (\d+) ?(\d*)\r?\n")


def _first(text: str) -> int:
    """Return the first number in lines of a console."""
    found = _SAYS.search(text)
    return int(found[2]) if found else 0


class Counter:
    """Checks the output of one guest on the consoles of all hosts."""

    def __init__(self) -> None:
        self.last = 0
        """The last number that is known to be on the disk."""
        self.confirmed = 0
        self.wrong: list[str] = []
        self._least: int | None = None

    def may_return_to(self, number: int | None) -> None:
        """Allow the guest to boot with an older number. The disk of a cold migration that fails or is reverted is the
        one that the guest had before; an evacuation without the disk begins with 0. None: this is no longer expected.
        """
        self._least = number

    def take(self, text: str) -> None:
        """Check lines that the guest has written on one host. Other output may hide a number, and the pause of a
        migration may lose one.
        """
        for what, word, other in _SAYS.findall(text):
            number = int(word)
            if what == "counted":
                if number <= self.last:
                    self.wrong.append(f"the counter: {number} follows {self.last}")
                self.confirmed += number > self.last
                self.last = max(number, self.last)
            elif what == "counting":
                self._boots(number)
            else:
                self.wrong.append(f"the guest wrote {number}, and read {other or 'nothing'}")

    def _boots(self, number: int) -> None:
        if number < (self.last if self._least is None else min(self._least, self.last)):
            self.wrong.append(f"the guest has booted with {number} after it wrote {self.last}")
        self.last = number


class Watch:
    """Reads the consoles of a server on all hosts in a thread, for its ``counter``."""

    def __init__(self, data: Path, server: str) -> None:
        self._pattern = f"hosts/*/instances/{server}/console.log"
        self._data = data
        self._read: dict[tuple[Path, int], int] = {}
        """File and its inode → number of bytes that were read."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self.counter = Counter()

    def look(self) -> None:
        """Read the new complete lines of all consoles; if several have some, those with smaller numbers first."""
        for text in sorted(filter(None, map(self._new, self._data.glob(self._pattern))), key=_first):
            self.counter.take(text)

    def _new(self, path: Path) -> str:
        try:
            found = path.stat()
            key, size = (path, found.st_ino), found.st_size
            begin = self._read.get(key, 0)
            begin = begin if begin <= size else 0  # the host has shortened it
            with path.open("rb") as file:
                file.seek(begin)
                text = file.read(size - begin)
        except OSError:  # removed
            return ""
        complete = text[: text.rfind(b"\n") + 1]
        self._read[key] = begin + len(complete)
        return complete.decode(errors="replace")

    def _follow(self) -> None:
        while not self._stop.wait(INTERVAL):
            self.look()

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self.look()
