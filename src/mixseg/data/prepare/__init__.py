"""Cases -> compact arrays on the training grid: the store that runs read, and the archive for another machine."""
