"""Hosts of a chaos run with real networks, so that the packets their guests receive can be compared with the API's
records.
"""
