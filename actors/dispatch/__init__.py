"""Workers whose work is a process of the operating system, and what sees to it that none outlives its host.

To be read in this order: ``guarded_process`` with ``process_group`` and ``guardian`` (a group of its own that ends with
its host). A command: ``program`` (what is run; users write ``trees.Command``), ``command_incarnation``,
``command_process``, ``output`` and ``reader``. Code of ours in a process: ``process`` and ``worker_handle`` with
``host_calls`` (the host's half), ``remote`` (the wire), ``worker_process``, ``worker_side`` and ``worker_host`` (in the
process), ``fork_server`` and ``preloading`` (how it starts), ``process_log``.
``forms`` tells supervisors which is which.
"""
