"""Cases -> arrays on the training grid -> what one run may see of them -> batches.

Of these files only ``prepare`` (and ``pack``'s packing side) reads image formats; a training reads ``prepared`` arrays
and needs none of their libraries.
"""
