"""The commands; each file has the settings of one command and its function."""
