"""The state of one process: its libraries, threads, and the request that it answers."""
