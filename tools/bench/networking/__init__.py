"""bin/bench network: what networking costs, on the host, in the records and over HTTP."""
