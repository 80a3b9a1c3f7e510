"""What strangers send: its cost, files that unpack to gigabytes, damaged input without end."""
