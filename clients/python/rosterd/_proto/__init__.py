"""Generated from proto/rosterd/v1 by scripts/generate.py. Do not edit."""
