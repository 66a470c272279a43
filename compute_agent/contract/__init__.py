"""The messages the portal and the agents speak: versioned, typed, validated on decode.  The only package both sides
import.
"""
