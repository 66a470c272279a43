"""The bridge of each network, and the segments that connect it to other hosts."""
