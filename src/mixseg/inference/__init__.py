"""A run and images -> label maps in the geometry of the images."""
