"""How the names of a package are loaded: each when it is first used."""
