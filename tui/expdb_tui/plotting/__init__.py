"""Plots as rows of text: axes, a raster of dots, and what is drawn in which order."""
