"""Web page of a tree: its server, its settings, and the files that a browser loads (``static``).

``trees.observe.web.web_settings`` is loaded with the library; everything else here needs the extra ``web`` and is
loaded when a page is opened (``trees.observe.web.web_server``).
"""
