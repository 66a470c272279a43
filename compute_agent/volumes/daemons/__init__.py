"""Storage daemons: their processes, exports, addresses and descriptions."""
