"""Places in which worker code runs: dispatchers, incarnations, the crash boundary, the bridge to Pykka.

``pool``, ``loop`` and ``pinned_thread`` are the three dispatchers (``incarnation_ports`` says what one is). An
``incarnation`` is one run of a child, from a start to its end, ``crash_boundary`` the only place
that enters user code. May import ``actors.messaging`` and below.
"""
