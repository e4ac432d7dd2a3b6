"""Tables of runs: what the paper compares, asked for by name, run where there is room.

``grid`` is the language, ``paper`` the experiments, ``plan`` the runs that one of them takes on a dataset, ``runner``
sees them through.
"""
