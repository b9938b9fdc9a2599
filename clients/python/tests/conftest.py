import os

# The tests' own servers are on loopback; nothing of the environment may lead elsewhere.
for name in ("ROSTERD_SERVER", "ROSTERD_CREDENTIAL"):
    os.environ.pop(name, None)
