"""Checks of what users write: field types, the base of their models, the wording of errors.

Pure. Imports ``actors.model`` only.
"""
