"""Workers whose work is a process of the operating system, and what sees to it that none outlives its host."""
