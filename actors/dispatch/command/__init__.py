"""A command as a child: ``program`` (what is run), ``command_incarnation``, ``command_process``, ``command_output``.

Users write ``trees.Command``. All of this runs in the host.
"""
