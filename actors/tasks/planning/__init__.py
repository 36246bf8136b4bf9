"""From a goal to a plan that fits the tree: settings, planners, the match of a goal with workers, validation.

Pure. May import ``actors.tasks.model``.
"""
