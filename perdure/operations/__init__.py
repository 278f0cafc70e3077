"""Operations on an installation as a whole: diagnose, set up, collect garbage, replay."""
