"""Messages between the portal and the agents: versioned, typed, validated on decode.  The only package that both sides
import.
"""
