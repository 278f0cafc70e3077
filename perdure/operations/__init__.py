"""What a person does to an installation as a whole: diagnose, set up, collect, replay."""
