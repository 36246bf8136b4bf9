"""The runtime without tasks: a host that declares and starts trees with ``actors`` alone.

``tests.project.test_runtime_alone`` copies ``actors`` without ``actors/tasks`` and puts the package ``trees`` of this
folder in the place of the real one, which stands on tasks. The supervision tests run there as they are.
"""
