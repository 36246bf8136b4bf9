"""Programs that show that a change works; each is run with the packages in which it was made."""
