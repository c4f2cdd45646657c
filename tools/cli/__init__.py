"""The machinery of the command `mqstore`: table of commands, options, output, progress, exit codes."""
