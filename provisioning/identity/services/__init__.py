"""What changes identity: every write goes through one of these.

Whatever takes something away appends an event on the topic ``auth``, so that open connections look again at once.
"""
