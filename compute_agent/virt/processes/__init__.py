"""Programs of the host: their rights and limits, and their processes."""
