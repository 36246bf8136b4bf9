"""Plain records and decisions of the runtime: specs, restart strategies, errors, events, time.

Pure: no module here starts a thread, waits, or looks at a clock that it was not given. Imports nothing else of the
library.
"""
