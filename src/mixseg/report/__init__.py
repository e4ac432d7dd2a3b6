"""Pages and figures about runs, experiments and folders of scans."""
