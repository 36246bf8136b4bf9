"""The tests: one file a module of the library; `pytest` runs them, `bash .ci/run` runs everything."""
