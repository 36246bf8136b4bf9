"""Supervisors: they start, stop and restart children as OTP does.

``supervisor`` receives what happens, ``restarts`` decides, ``procedures`` carry out, ``child_ownership`` says which
procedure has a child, ``child_table`` lists the children, ``closing`` closes the mailboxes of those that stay down,
``dead_ends`` fails asks that cannot be answered before their asker has stopped, ``start_errors`` says why a child did
not start. May import ``actors.execution`` and below.
"""
