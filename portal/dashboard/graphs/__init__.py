"""Graphs of measures: SVG drawn on the server, which a small script makes readable under the pointer."""
