"""Working copies, snapshots, patches and their application."""
