"""The command line: each command is one file, its help is that file's first line."""
