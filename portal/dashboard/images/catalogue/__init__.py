"""The panel of the image catalogue."""
