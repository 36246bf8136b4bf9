"""From a goal to a plan that fits the tree: settings, planners, the match of a goal with workers, validation.

Pure, but for estimates and modules of users that ``check`` calls. Imports no thread, clock or loop.
"""
