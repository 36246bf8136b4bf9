"""Children whose work is a process: commands, and workers with ``dispatch="process"`` or ``dispatch="ray"``.

``README.md`` in this folder shows which process runs what, and who owns whom. The doors are ``process`` (the worker as
its host sees it), ``remote`` (the wire) and ``ray`` (a cluster); ``incarnation_types`` tells supervisors which kind of
incarnation and mailbox a recipe asks for.
"""
