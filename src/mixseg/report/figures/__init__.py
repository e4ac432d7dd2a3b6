"""The pictures of reports. Each function returns a figure, or None where there is nothing to draw."""
