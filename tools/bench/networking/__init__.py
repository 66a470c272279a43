"""bin/bench network: the cost of networking, on the host, in the records and over HTTP."""
