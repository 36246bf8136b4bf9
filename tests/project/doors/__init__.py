"""Doors of the house: for each of seven changes the files that it costs, and a program that shows that it works."""
