-- Starts of schedules that were refused of late: monitoring asks at every scrape.
CREATE INDEX schedule_starts_refused ON schedule_starts (at) WHERE refused IS NOT NULL;
