"""Pages for people: what a folder of scans holds, how a run went. The home of matplotlib."""
