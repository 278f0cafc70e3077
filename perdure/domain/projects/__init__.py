"""What runs share and leave behind: sessions, projects, artifacts, todos and sprints."""
