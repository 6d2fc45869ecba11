"""The version of the package, and of the protocol that nodes speak to each other."""

VERSION = "0.1.0"
PROTOCOL = 1
