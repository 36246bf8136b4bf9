"""Messages and their ways: envelopes, mailboxes, replies, refs, proxies, dead letters.

Also the wait graph (who waits for whom) and what worker code may ask of its place (``worker_api``). May import
``actors.model``, ``actors.validation`` and ``actors.concurrency``.
"""
