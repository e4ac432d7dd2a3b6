"""Folders of scans as people have them -> cases: one module for each layout."""
