"""Walk through the page in a real browser; see tests/README.md."""
