"""Commands to hosts about volumes, and the data that hosts exchange."""
