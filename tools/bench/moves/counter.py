"""A counter that a guest writes to its disk and prints on its console, after it has read its last number from the disk
again: it shows lost writes, and the writes of a second guest.
"""

from __future__ import annotations

import re
from itertools import pairwise

BEGINS = "+counting"
COUNTS = f"""
(n=0; echo $n >/root/count; echo '{BEGINS}' >/dev/ttyS0
while :; do
  sync; echo 3 >/proc/sys/vm/drop_caches; found=$(cat /root/count)
  [ "$found" = "$n" ] || echo "+lost $n $found" >/dev/ttyS0
  n=$((n+1)); echo $n >/root/count; sync; echo "+counted $n" >/dev/ttyS0; usleep 200000
done) >/dev/null 2>&1 </dev/null &
"""
"""The script of a guest that counts."""
_LOST = re.compile(r"\+lost (\S*) ?(\S*)\r?\n")
_NUMBER = re.compile(r"\+counted (\d+)\r?\n")


class Counter:
    """Checks the numbers of one guest on the consoles of the hosts on which it runs."""

    def __init__(self) -> None:
        self.last = 0
        """The last number since the guest has booted."""
        self.confirmed = 0
        self._reported = set[str]()

    def booted(self) -> None:
        """Expect the numbers from the beginning."""
        self.last = 0

    def read(self, console: str) -> list[str]:
        """Return the new errors in the output on the present host, since the guest has booted or arrived there. Other
        output may hide a number, and the pause of a migration may lose one.
        """
        text = console.rpartition(BEGINS)[2]
        numbers = [int(number) for number in _NUMBER.findall(text)]
        wrong = [f"the guest wrote {wrote}, and read {found or 'nothing'}" for wrote, found in _LOST.findall(text)]
        wrong += [f"the counter: {after} follows {number}" for number, after in pairwise(numbers) if after <= number]
        if numbers:
            if numbers[-1] < self.last:
                wrong.append(f"the counter: {numbers[-1]} follows {self.last}")
            self.confirmed += max(numbers[-1] - self.last, 0)
            self.last = numbers[-1]
        new = [each for each in wrong if each not in self._reported]
        self._reported.update(new)
        return new
