"""The targets by name: each file has a function `opened` that makes one."""
